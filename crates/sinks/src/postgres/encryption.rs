//! Whether a connection is encrypted, and whom it believes.
//!
//! `sslmode` of the connection string and `spec.tls` of the sink are one decision:
//!
//! | `sslmode` | without an authority | with one (`spec.tls` or `sslrootcert`) |
//! | --- | --- | --- |
//! | absent | as `prefer` | as `verify-full` |
//! | `disable` | never encrypted | never encrypted |
//! | `allow`, `prefer` | encrypted if possible, nobody verified | as `verify-ca` |
//! | `require` | encrypted, nobody verified | as `verify-ca` |
//! | `verify-ca` | encrypted, chain verified (system's authorities) | with that authority |
//! | `verify-full` | and the host name | and the host name |
//!
//! `spec.tls.insecureSkipVerify` switches verification off in every row. An authority in `spec.tls`
//! wins over `sslrootcert`.
//!
//! Whoever names an authority wants to know whom the password goes to, so there is no way back to
//! plain text then, except for `disable`, which says it in so many words.
//!
//! # Files
//!
//! `sslrootcert`, `sslcert` and `sslkey` name files. In an operator's pod these would be files of
//! the operator, chosen by a tenant: a device that never ends, a pipe that never answers, a mounted
//! key that is somebody else's identity. So an operator takes authorities from `spec.tls` and the
//! client's certificate from the Secret (`tls.crt`, `tls.key`), and refuses the keys; only
//! `sslrootcert=system` names no file. The command line on a person's machine reads them.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dsn::{Ssl, SslMode};
use crate::{
    database::local_file,
    error::SinkError,
    secret::SecretData,
    tls::{self, Trust},
};

/// How one attempt to connect deals with encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Plain,
    IfOffered,
    Encrypted,
}

impl Attempt {
    pub(super) fn ssl_mode(self) -> tokio_postgres::config::SslMode {
        use tokio_postgres::config::SslMode;
        match self {
            Attempt::Plain => SslMode::Disable,
            Attempt::IfOffered => SslMode::Prefer,
            Attempt::Encrypted => SslMode::Require,
        }
    }
}

/// What is verified of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verify {
    Nothing,
    Chain,
    ChainAndName,
}

/// Where certificates come from, besides `spec.tls`.
#[derive(Clone, Copy)]
pub(super) struct Sources<'s> {
    /// The Secret with the connection string.
    pub(super) secret: &'s SecretData,
    /// Whether files may be read.
    pub(super) local_files: bool,
}

/// How connections of a sink are encrypted.
#[derive(Clone)]
pub(super) struct Encryption {
    /// In the order in which they are tried.
    pub(super) attempts: &'static [Attempt],
    pub(super) connect: MakeRustlsConnect,
}

impl Encryption {
    /// Reads what it needs at once, so that a mistake shows before anything is connected.
    pub(super) fn new(ssl: &Ssl, trust: &Trust, sources: Sources<'_>) -> Result<Self, SinkError> {
        if !sources.local_files {
            refuse_files(ssl)?;
        }
        let mut trust = trust.clone();
        let mut system_roots = false;
        if trust.authority.is_none() {
            match ssl.root_certificate.as_deref() {
                None => {}
                Some("system") => system_roots = true,
                Some(path) => {
                    let pem = read(path, "sslrootcert")?;
                    let place = "postgres connect: sslrootcert of the connection string";
                    tls::authorities(&pem, place)?;
                    trust.authority = Some(pem);
                }
            }
        }
        let (attempts, verify) = decide(
            ssl.mode,
            trust.authority.is_some() || system_roots,
            trust.insecure_skip_verify,
        );
        trust.insecure_skip_verify = verify == Verify::Nothing;
        let mut config = trust.client_config()?;
        if verify == Verify::Chain {
            let verifier = AnyName(trust.verifier()?);
            config
                .dangerous()
                .set_certificate_verifier(Arc::new(verifier));
        }
        if ssl.direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        identify(&mut config, ssl, sources.secret)?;
        Ok(Self {
            attempts,
            connect: MakeRustlsConnect::new(config),
        })
    }
}

/// The table of the module's documentation.
fn decide(mode: Option<SslMode>, authority: bool, insecure: bool) -> (&'static [Attempt], Verify) {
    let chain_if = |known: bool| {
        if known {
            Verify::Chain
        } else {
            Verify::Nothing
        }
    };
    let (attempts, verify): (&[Attempt], _) = match mode {
        None if authority => (&[Attempt::Encrypted], Verify::ChainAndName),
        Some(SslMode::Allow | SslMode::Prefer) if authority => {
            (&[Attempt::Encrypted], Verify::Chain)
        }
        None | Some(SslMode::Prefer) => (&[Attempt::IfOffered, Attempt::Plain], Verify::Nothing),
        Some(SslMode::Disable) => (&[Attempt::Plain], Verify::Nothing),
        Some(SslMode::Allow) => (&[Attempt::Plain, Attempt::Encrypted], Verify::Nothing),
        Some(SslMode::Require) => (&[Attempt::Encrypted], chain_if(authority)),
        Some(SslMode::VerifyCa) => (&[Attempt::Encrypted], Verify::Chain),
        Some(SslMode::VerifyFull) => (&[Attempt::Encrypted], Verify::ChainAndName),
    };
    (attempts, if insecure { Verify::Nothing } else { verify })
}

/// Refuses the keys that name files.
fn refuse_files(ssl: &Ssl) -> Result<(), SinkError> {
    let authority = "give the authority in spec.tls.caBundle or spec.tls.caSecretRef, \
                     or write sslrootcert=system";
    let identity = "put the client's certificate and key into the Secret of the connection string, \
                    under tls.crt and tls.key";
    let root = ssl.root_certificate.as_deref();
    for (key, given, instead) in [
        (
            "sslrootcert",
            root.is_some_and(|file| file != "system"),
            authority,
        ),
        ("sslcert", ssl.certificate.is_some(), identity),
        ("sslkey", ssl.key.is_some(), identity),
    ] {
        if given {
            return Err(SinkError::terminal(format!(
                "postgres connect: {key} of the connection string names a file, and the operator \
                 reads no files for a sink; remove {key} and {instead}"
            )));
        }
    }
    Ok(())
}

/// Presents the client's certificate, if there is one: that of the connection string, or that of
/// the Secret.
fn identify(config: &mut ClientConfig, ssl: &Ssl, secret: &SecretData) -> Result<(), SinkError> {
    let stage = |error: SinkError| error.at("postgres connect");
    match (&ssl.certificate, &ssl.key) {
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (read(certificate, "sslcert")?, read(key, "sslkey")?);
            let names = ("sslcert", "sslkey");
            let place = "the connection string";
            tls::client_certificate::present(config, (&certificate, &key), names, place)
                .map_err(stage)
        }
        (None, None) => tls::client_certificate::identify(config, secret).map_err(stage),
        _ => Err(SinkError::terminal(
            "postgres connect: sslcert and sslkey of the connection string go together",
        )),
    }
}

/// A small file of a person's own machine.
fn read(path: &str, key: &str) -> Result<Vec<u8>, SinkError> {
    local_file(path).ok_or_else(|| {
        SinkError::terminal(format!(
            "postgres connect: {key} of the connection string is not a readable file of at most \
             1 MiB; authorities can be given in spec.tls, certificates in the Secret"
        ))
    })
}

/// Verifies as another verifier does, except for the name: `verify-ca`.
#[derive(Debug)]
struct AnyName(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last, when everything else has been found right.
        match self
            .0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(query: &str, secret: &[(&str, &str)], local_files: bool) -> Option<String> {
        let dsn = super::super::dsn::Dsn::parse(&format!("postgres://u@h/d?{query}")).unwrap();
        let secret: SecretData = secret.iter().copied().collect();
        let sources = Sources {
            secret: &secret,
            local_files,
        };
        let built = Encryption::new(&dsn.ssl, &Trust::default(), sources);
        built.err().map(|error| match error {
            SinkError::Terminal(text) => text,
            other => panic!("{other:?}"),
        })
    }

    /// A tenant's string opens no file of the pod, whatever the file is, and says what to do.
    #[test]
    fn a1_an_operator_reads_no_files_for_a_sink() {
        for (query, key, instead) in [
            ("sslrootcert=/dev/zero", "sslrootcert", "spec.tls.caBundle"),
            (
                "sslrootcert=/no/such",
                "sslrootcert",
                "spec.tls.caSecretRef",
            ),
            (
                "sslcert=/dev/zero&sslkey=/dev/zero",
                "sslcert",
                "tls.crt and tls.key",
            ),
            ("sslkey=/dev/zero", "sslkey", "tls.crt and tls.key"),
        ] {
            let said = built(query, &[], false).unwrap();
            assert!(
                said.contains(&format!("{key} of the connection string names a file")),
                "{said}"
            );
            assert!(said.contains(instead) && !said.contains("/dev"), "{said}");
        }
        assert_eq!(built("sslrootcert=system", &[], false), None);
        assert_eq!(built("sslmode=verify-full", &[], false), None);
    }

    /// On a person's machine they are read, if they are files.
    #[test]
    fn a1_only_bounded_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let pipe = path("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        std::fs::write(path("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        std::fs::write(path("text"), "no certificate").unwrap();
        for file in ["/dev/zero", &pipe, &path("large"), &path("absent")] {
            let said = built(&format!("sslrootcert={file}"), &[], true).unwrap();
            assert!(said.contains("not a readable file"), "{file}: {said}");
        }
        let said = built(&format!("sslrootcert={}", path("text")), &[], true).unwrap();
        assert!(
            said.contains("sslrootcert of the connection string: holds no PEM"),
            "{said}"
        );
    }

    #[test]
    fn a1_the_client_certificate_comes_from_the_secret() {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap().pem();
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let key = key.serialize_pem();
        for (secret, says) in [
            (
                &[("tls.crt", certificate.as_str()), ("tls.key", &key)][..],
                None,
            ),
            (&[("tls.crt", "for somebody else")], None),
            (&[("tls.key", &key)], Some("go together")),
            (
                &[("tls.crt", "x"), ("tls.key", &key)],
                Some("tls.crt of the Secret is not"),
            ),
            (
                &[("tls.crt", &certificate), ("tls.key", "x")],
                Some("tls.key of the Secret is not"),
            ),
            (
                &[("tls.crt", &certificate), ("tls.key", &other)],
                Some("does not belong"),
            ),
        ] {
            let said = built("sslmode=require", secret, false);
            assert_eq!(said.is_some(), says.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().contains(says.unwrap_or_default()));
        }
    }

    #[test]
    fn a10_modes() {
        use Attempt::{Encrypted, IfOffered, Plain};
        use Verify::{Chain, ChainAndName, Nothing};
        let modes = [
            (
                None,
                &[IfOffered, Plain][..],
                Nothing,
                &[Encrypted][..],
                ChainAndName,
            ),
            (Some(SslMode::Disable), &[Plain], Nothing, &[Plain], Nothing),
            (
                Some(SslMode::Allow),
                &[Plain, Encrypted],
                Nothing,
                &[Encrypted],
                Chain,
            ),
            (
                Some(SslMode::Prefer),
                &[IfOffered, Plain],
                Nothing,
                &[Encrypted],
                Chain,
            ),
            (
                Some(SslMode::Require),
                &[Encrypted],
                Nothing,
                &[Encrypted],
                Chain,
            ),
            (
                Some(SslMode::VerifyCa),
                &[Encrypted],
                Chain,
                &[Encrypted],
                Chain,
            ),
            (
                Some(SslMode::VerifyFull),
                &[Encrypted],
                ChainAndName,
                &[Encrypted],
                ChainAndName,
            ),
        ];
        for (mode, attempts, verify, attempts_with, verify_with) in modes {
            assert_eq!(decide(mode, false, false), (attempts, verify), "{mode:?}");
            assert_eq!(
                decide(mode, true, false),
                (attempts_with, verify_with),
                "{mode:?}"
            );
            assert_eq!(
                decide(mode, true, true),
                (attempts_with, Nothing),
                "{mode:?}"
            );
        }
    }
}
