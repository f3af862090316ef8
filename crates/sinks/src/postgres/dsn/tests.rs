use super::*;

fn server(host: &Host) -> String {
    let address = host
        .address
        .as_deref()
        .map(|a| format!("@{a}"))
        .unwrap_or_default();
    format!("{}{address}:{}", host.name, host.port)
}

#[test]
fn both_forms_say_the_same() {
    let forms = [
        "postgres://us%40er:p%2Fw+%25@db.example:6432/in%20ventory?sslmode=verify-full&statement_timeout=5s",
        "postgresql://us%40er:p%2Fw+%25@/in%20ventory?host=db.example&port=6432&sslmode=verify-full&statement_timeout=5s",
        r"user=us@er password = 'p/w+%' host=db.example port=6432 dbname='in ventory' sslmode=verify-full statement_timeout=5s",
        r"user=us@er password=p/w+% host=db.example port=6432 dbname=in\ ventory sslmode=verify-full statement_timeout=5s",
    ];
    for form in forms {
        let dsn = Dsn::parse(form).unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(dsn.user, "us@er", "{form}");
        assert_eq!(
            dsn.password.as_ref().map(SecretText::expose),
            Some("p/w+%"),
            "{form}"
        );
        assert_eq!(
            dsn.hosts.iter().map(server).collect::<Vec<_>>(),
            ["db.example:6432"]
        );
        assert_eq!(dsn.database.as_deref(), Some("in ventory"), "{form}");
        assert_eq!(dsn.ssl.mode, Some(SslMode::VerifyFull), "{form}");
        let parameters: Vec<_> = dsn.parameters.into_iter().collect();
        assert_eq!(
            parameters,
            [("statement_timeout".into(), "5s".into())],
            "{form}"
        );
    }
}

#[test]
fn several_hosts() {
    for (text, expected) in [
        ("postgres://u@a,b:7/d", "a:5432 b:7"),
        ("postgres://u@[::1]:7,[fd00::2]/d", "::1:7 fd00::2:5432"),
        ("user=u host=a,b port=6,7", "a:6 b:7"),
        ("user=u host=a,b port=6", "a:6 b:6"),
        ("user=u host=a,b", "a:5432 b:5432"),
        ("user=u host=a hostaddr=10.0.0.1", "a@10.0.0.1:5432"),
        ("user=u hostaddr=10.0.0.1", "10.0.0.1@10.0.0.1:5432"),
    ] {
        let dsn = Dsn::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let hosts: Vec<_> = dsn.hosts.iter().map(server).collect();
        assert_eq!(hosts.join(" "), expected, "{text}");
    }
    let dsn =
        Dsn::parse("postgres://u@a,b/d?target_session_attrs=primary&load_balance_hosts=random");
    let dsn = dsn.unwrap();
    assert!(dsn.shuffled && dsn.attributes == Attributes::Primary);
}

#[test]
fn limits_have_defaults_and_can_be_given() {
    let limits = |query: &str| {
        let dsn = Dsn::parse(&format!("postgres://u@h/d?{query}")).unwrap();
        (
            dsn.pool.connections,
            dsn.pool.lifetime.as_secs(),
            dsn.pool.idle.as_secs(),
            dsn.connect_timeout.as_secs(),
        )
    };
    assert_eq!(limits(""), (4, 3600, 60, 30));
    assert_eq!(
        limits(
            "pool_max_conns=9&pool_max_conn_lifetime=1h30m&pool_max_conn_idle_time=5s&connect_timeout=3"
        ),
        (9, 5400, 5, 3)
    );
    assert_eq!(
        limits("pool_max_conns=1000&connect_timeout=0&pool_min_conns=2"),
        (64, 3600, 60, 30)
    );
}

/// D29 and its like: nothing of the string is in the text.
#[test]
fn a_broken_string_gives_the_fixed_text() {
    for text in [
        "postgres://tenantuser:hunter2@tenanthost/tenantdb?sslmode=not-a-real-mode",
        "postgres://tenantuser:hunter2@tenanthost:5432:1/tenantdb",
        "postgres://tenantuser:hunter2@[fe80::1%25tenanthost/tenantdb",
        "postgres://tenantuser:hunter2@[fe80::1]tenanthost:5432/tenantdb",
        "postgres://tenantuser:hunter2@tenanthost:tenantport/tenantdb",
        "postgres://tenantuser:hunter2@tenanthost:70000/tenantdb",
        "postgres://tenantuser:%zz@tenanthost/tenantdb",
        "postgres://tenantuser:%f@tenanthost/tenantdb",
        "postgres://tenantuser:%%41@tenanthost/tenantdb",
        "postgres://tenantuser:%ff@tenanthost/tenantdb",
        "postgres://tenantuser:hunter2@tenanthost/tenantdb?hunter2",
        "postgres://tenantuser:hunter2@tenanthost/tenantdb?tenant-key=1",
        "postgres://tenantuser:hunter2@tenanthost/tenantdb?pool_max_conns=none",
        "postgres://tenantuser:hunter2@tenanthost/tenantdb?connect_timeout=soon",
        "host=tenanthost user=tenantuser password='hunter2",
        "host=tenanthost user=tenantuser port=1,2 hunter2",
        "tenanthost",
        "mysql://tenantuser:hunter2@tenanthost/tenantdb",
        "host=a,b,c port=1,2 user=tenantuser",
    ] {
        let error = Dsn::parse(text)
            .err()
            .unwrap_or_else(|| panic!("{text} is accepted"));
        assert_eq!(error, DsnError::Invalid, "{text}");
        assert_eq!(
            SinkError::from(error),
            SinkError::terminal("postgres connect: parse postgres DSN: invalid connection string"),
        );
    }
}

#[test]
fn what_a_sink_cannot_do_is_named() {
    for (text, says) in [
        ("postgres://u@%2Fvar%2Frun/d", "Unix sockets"),
        ("user=u host=/var/run/postgresql", "Unix sockets"),
        ("user=u dbname=d", "no host"),
        ("postgres:///d", "no host"),
        ("host=h user=u service=x", "service files"),
        ("host=h user=u passfile=x", "password files"),
        ("host=h user=u sslpassword=x", "encrypted client keys"),
        ("host=h user=u sslcrl=/etc/passwd", "remove the key sslcrl"),
        ("host=h user=u sslcrldir=/etc", "remove the key sslcrldir"),
        ("host=h user=u sslkeylogfile=/x", "not written to files"),
        ("host=h user=u require_auth=scram-sha-256", "require_auth"),
        ("user=u host=@abstract", "Unix sockets"),
        (
            "host=h user=u target_session_attrs=standby",
            "takes no writes",
        ),
    ] {
        let error = Dsn::parse(text)
            .err()
            .unwrap_or_else(|| panic!("{text} is accepted"));
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn strings_have_a_size() {
    for (text, says) in [
        (format!("user=u host={}", "h,".repeat(40)), "32 hosts"),
        (format!("user=u host=h x={}", "y".repeat(70_000)), "64 KiB"),
    ] {
        let error = Dsn::parse(&text).err().unwrap();
        assert!(error.to_string().contains(says), "{error}");
    }
    let patient = Dsn::parse("user=u host=h connect_timeout=9223372036854775807").unwrap();
    assert_eq!(patient.connect_timeout, LONGEST_CONNECT);
}

#[test]
fn keys_of_other_clients_are_no_session_parameters() {
    let text = "postgres://u@h/d?pool_health_check_period=1m&statement_cache_capacity=10&keepalives=1\
                &search_path=a%2Cb&my.tenant=x&options=-c%20work_mem%3D8MB&application_name=portal";
    let dsn = Dsn::parse(text).unwrap();
    let parameters: Vec<_> = dsn
        .parameters
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(parameters, ["my.tenant=x", "search_path=a,b"]);
    assert_eq!(dsn.options.as_deref(), Some("-c work_mem=8MB"));
    assert_eq!(dsn.application_name.as_deref(), Some("portal"));
}

#[test]
fn everything_that_names_the_place_is_hidden() {
    let dsn = Dsn::parse(
        "user=tenant password=hunter2 host=alpha,beta hostaddr=10.0.0.1,10.0.0.2 dbname=stock",
    )
    .unwrap();
    let text = "tenant:hunter2 at alpha, beta (10.0.0.1, 10.0.0.2) on \"stock\"; tenants";
    let clean = dsn.hidden_by(Redaction::default()).clean(text);
    let hidden = "[redacted]";
    assert_eq!(
        clean,
        format!(
            "{hidden}:{hidden} at {hidden}, {hidden} ({hidden}, {hidden}) on \"{hidden}\"; tenants"
        )
    );
}
