//! Keys of connection strings that a sink refuses, or has no use for.

/// Keys that point at something else than this string says, which would not be what runs.
pub(super) const REFUSED: [(&str, &str); 9] = [
    (
        "service",
        "service files are not supported; write the settings into the string",
    ),
    (
        "servicefile",
        "service files are not supported; write the settings into the string",
    ),
    (
        "passfile",
        "password files are not supported; write the password into the string",
    ),
    (
        "sslpassword",
        "encrypted client keys are not supported; give the key without a password",
    ),
    (
        "sslcrl",
        "files with revoked certificates are not supported; remove the key sslcrl",
    ),
    (
        "sslcrldir",
        "files with revoked certificates are not supported; remove the key sslcrldir",
    ),
    (
        "sslkeylogfile",
        "session keys are not written to files; remove the key sslkeylogfile",
    ),
    // It would reach the server as a session parameter, after the login that it is about.
    (
        "require_auth",
        "require_auth is not supported; use sslmode=verify-full or channel_binding=require",
    ),
    (
        "replication",
        "replication connections cannot hold rows; remove the key replication",
    ),
];

/// Keys of other clients that change nothing here: sockets are set up by the operator, text is
/// always UTF-8, and statements are always prepared.
pub(super) const WITHOUT_EFFECT: [&str; 16] = [
    "client_encoding",
    "default_query_exec_mode",
    "description_cache_capacity",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "max_protocol_version",
    "min_protocol_version",
    "sslcompression",
    "sslsni",
    "statement_cache_capacity",
    "tcp_user_timeout",
    "load_balance_hosts",
];
