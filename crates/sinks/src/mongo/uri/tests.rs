use super::*;

fn parsed(text: &str, secret: &[(&str, &str)], local_files: bool) -> Result<Uri, String> {
    let secret: SecretData = secret.iter().copied().collect();
    let sources = Sources {
        secret: &secret,
        local_files,
    };
    Uri::parse(text, &Trust::default(), sources).map_err(|error| match error {
        SinkError::Terminal(text) => text,
        other => panic!("{other:?}"),
    })
}

fn refused(text: &str) -> String {
    match parsed(text, &[], false) {
        Ok(_) => panic!("accepted"),
        Err(said) => {
            for part in ["hunter2", "tenant", "db.example", "/etc"] {
                assert!(!said.contains(part), "the text quotes the string: {said}");
            }
            said
        }
    }
}

#[test]
fn whatever_is_wrong_is_not_quoted() {
    for text in [
        "",
        "postgres://tenant:hunter2@db.example/x",
        "mongodb://tenant:hunt@er2@db.example",
        "mongodb://tenant:hunter2@db.example:port/x",
        "mongodb://tenant:hunter2@db.example/?authMechanism=NONSENSE",
        "mongodb://tenant:hunter2@db.example/?tls=maybe",
        "mongodb://tenant:hunter2@/x",
    ] {
        assert_eq!(refused(text), INVALID, "{text}");
    }
    assert_eq!(
        refused(&format!("mongodb://{}", "h,".repeat(40_000))),
        INVALID
    );
}

/// A tenant's string opens nothing of the pod.
#[test]
fn nothing_of_the_operators_machine_is_used() {
    let host = "mongodb://tenant:hunter2@db.example";
    for (text, says) in [
        (format!("{host}/?tls=true&tlsCAFile=/etc/passwd"), "tlsCAFile of the connection string names a file"),
        (format!("{host}/?tls=true&tlsCertificateKeyFile=/etc/passwd"), "tlsCertificateKeyFile of the connection string names a file"),
        ("mongodb://tenant:hunter2@%2Ftmp%2Fmongodb.sock/x".to_owned(), "socket of the operator's own machine"),
        (format!("{host},%2Fetc%2Fx.sock/x"), "socket of the operator's own machine"),
        ("mongodb://db.example/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s".to_owned(), "authMechanism is not supported"),
        ("mongodb://db.example/?authMechanism=MONGODB-X509&tls=false".to_owned(), "needs TLS"),
        (format!("{host}/?authMechanism=PLAIN"), "needs TLS"),
        (format!("mongodb://{}", vec!["h"; 51].join(",")), "more than 50 hosts"),
    ] {
        let said = refused(&text);
        assert!(said.contains(says), "{text}: {said}");
    }
}

#[test]
fn tls_follows_string_and_spec() {
    let authority = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
    let pem = authority.cert.pem().into_bytes();
    for (text, authority, expected) in [
        ("mongodb://h", false, false),
        ("mongodb://h/?tls=true", false, true),
        ("mongodb://h/?ssl=true", false, true),
        ("mongodb+srv://h.example.com", false, true),
        ("mongodb+srv://h.example.com/?tls=false", false, false),
        ("mongodb://h", true, true),
        ("mongodb://h/?tls=false", true, false),
    ] {
        let trust = Trust {
            authority: authority.then(|| pem.clone()),
            insecure_skip_verify: false,
        };
        let secret = SecretData::default();
        let sources = Sources {
            secret: &secret,
            local_files: false,
        };
        let uri = Uri::parse(text, &trust, sources).unwrap();
        assert_eq!(uri.tls.is_some(), expected, "{text} {authority}");
    }
}

#[test]
fn a_certificate_of_the_secret_needs_its_key() {
    let said = parsed("mongodb://h/?tls=true", &[("tls.key", "x")], false)
        .err()
        .unwrap();
    assert!(said.contains("go together"), "{said}");
    let both = [("tls.crt", "x"), ("tls.key", "x")];
    let said = parsed("mongodb://h/?tls=true", &both, false).err().unwrap();
    assert!(
        said.contains("tls.crt of the Secret is not a readable PEM text"),
        "{said}"
    );
    assert!(
        parsed("mongodb://h", &both, false).is_ok(),
        "without TLS nobody asks for it"
    );
}

/// On a person's own machine files are read.
#[test]
fn files_of_a_person_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    let uri = format!("mongodb://h/?tls=true&tlsCAFile={}", path.display());
    let said = parsed(&uri, &[], true).err().unwrap();
    assert!(said.contains("not a readable file"), "{said}");
    let authority = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
    std::fs::write(&path, authority.cert.pem()).unwrap();
    assert!(parsed(&uri, &[], true).is_ok());
}
