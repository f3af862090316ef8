//! The connection string.
//!
//! The driver reads it; this module decides what a sink takes of it. Whatever is wrong with a
//! string, the error says so without quoting any of it: the string is a secret.
//!
//! | Of the string | What becomes of it |
//! | --- | --- |
//! | hosts, SRV name, user, password, `authSource`, `authMechanism`, `replicaSet`, `directConnection`, `loadBalanced`, `appName` | taken |
//! | `tls`, `tlsAllowInvalidCertificates`, `tlsInsecure` | taken, together with `spec.tls` |
//! | `tlsCAFile`, `tlsCertificateKeyFile` | name files: an operator refuses them, the command line reads them |
//! | `connectTimeoutMS`, `serverSelectionTimeoutMS`, `maxPoolSize` | taken, within limits |
//! | `readPreference`, `readConcernLevel`, `w`, `journal`, `retryWrites`, `compressors`, `proxyHost` … | the sink decides |

use std::{sync::Arc, time::Duration};

use mongodb::{
    error::ErrorKind,
    options::{
        AuthMechanism, ClientOptions, ConnectionString, HostInfo, ReadPreference,
        SelectionCriteria, ServerAddress, Socks5Proxy, Tls, TlsOptions,
    },
};
use rustls::ClientConfig;
use tokio::time::timeout;

use crate::{
    database::local_file,
    dial::socks::SocksGuard,
    error::SinkError,
    redact::Redaction,
    secret::{SecretData, SecretText},
    tls::{self, Trust},
};

/// Keys of the Secret that may hold the string, in order of preference.
pub(super) const KEYS: [&str; 4] = ["uri", "url", "connectionString", "MONGODB_URI"];
/// The keys of the Secret that hold the client's certificate and its key.
const CERTIFICATE_KEY: &str = "tls.crt";
const PRIVATE_KEY_KEY: &str = "tls.key";

/// Longer strings are something else.
const LONGEST_STRING: usize = 64 * 1024;
/// A replica set has no more members.
const MOST_HOSTS: usize = 50;
/// How long a server is looked for that takes the operation: long enough for an election.
const SELECTION: Duration = Duration::from_secs(20);
const LONGEST_SELECTION: Duration = Duration::from_mins(1);
const CONNECT: Duration = Duration::from_secs(10);
const LONGEST_CONNECT: Duration = Duration::from_secs(30);
/// How long name servers may take to tell the hosts behind a name.
const LOOKUP: Duration = Duration::from_secs(20);
/// Connections of one sink to one server.
const CONNECTIONS: u32 = 4;
const MOST_CONNECTIONS: u32 = 64;

const INVALID: &str = "mongodb connect: invalid connection string";

/// A connection string, read. Not printable.
#[derive(Clone)]
pub(super) struct Uri {
    string: ConnectionString,
    /// How connections are encrypted, if they are.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// Where certificates come from, besides `spec.tls`.
#[derive(Clone, Copy)]
pub(super) struct Sources<'s> {
    /// The Secret with the connection string.
    pub(super) secret: &'s SecretData,
    /// Whether files may be read.
    pub(super) local_files: bool,
}

fn unsupported(what: &str) -> SinkError {
    SinkError::terminal(format!("mongodb connect: {what}"))
}

impl Uri {
    /// Reads what it needs at once, so that a mistake shows before anything is connected.
    pub(super) fn parse(
        text: &str,
        trust: &Trust,
        sources: Sources<'_>,
    ) -> Result<Self, SinkError> {
        if text.len() > LONGEST_STRING {
            return Err(SinkError::terminal(INVALID));
        }
        let mut string = ConnectionString::parse(text).map_err(|_| SinkError::terminal(INVALID))?;
        let mut srv = false;
        match &string.host_info {
            HostInfo::HostIdentifiers(hosts) => judge_hosts(hosts)?,
            HostInfo::DnsRecord(_) => srv = true,
            _ => return Err(SinkError::terminal(INVALID)),
        }
        let tls = match string.tls.take() {
            Some(Tls::Disabled) => None,
            Some(Tls::Enabled(options)) => Some(options),
            // Whoever names an authority wants to know whom the password goes to.
            None => (srv || trust.authority.is_some()).then(TlsOptions::default),
        };
        judge_login(&string, tls.is_some())?;
        let tls = match tls {
            Some(options) => Some(Arc::new(encryption(&options, trust, sources)?)),
            None => None,
        };
        // The door does it; the driver must not do it a second time, also not by default.
        string.tls = Some(Tls::Disabled);
        // The driver refuses it; calls have deadlines of ours.
        #[expect(deprecated, reason = "the field is taken out, not used")]
        {
            string.socket_timeout = None;
        }
        Ok(Self { string, tls })
    }

    /// A redaction that knows the parts of the string.
    pub(super) fn hidden_by(&self, redaction: Redaction) -> Redaction {
        let text = |text: &str| SecretText::from(text);
        let hosts = match &self.string.host_info {
            HostInfo::HostIdentifiers(hosts) => {
                hosts.iter().map(|host| text(host_of(host))).collect()
            }
            HostInfo::DnsRecord(name) => vec![text(name)],
            _ => Vec::new(),
        };
        let login = self.string.credential.as_ref();
        let names = login.into_iter().flat_map(|login| {
            [&login.username, &login.source]
                .into_iter()
                .flatten()
                .map(|name| text(name))
        });
        let password = login.and_then(|login| login.password.as_deref());
        redaction
            .and_names(hosts.into_iter().chain(names))
            .and(password.map(text))
    }

    /// What a client is made with. Asks name servers if the string names an SRV record; the hosts
    /// behind it are dialled by name through the guard, like all others.
    pub(super) async fn options(&self, guard: &SocksGuard) -> Result<ClientOptions, SinkError> {
        let parsing = async { ClientOptions::parse(self.string.clone()).await };
        let Ok(parsed) = timeout(LOOKUP, parsing).await else {
            return Err(SinkError::transient(
                "mongodb connect: the name servers do not answer",
            ));
        };
        let mut options = parsed.map_err(|error| match *error.kind {
            ErrorKind::DnsResolve { .. } | ErrorKind::Io(_) => SinkError::transient(
                "mongodb connect: the SRV record of the connection string cannot be looked up",
            ),
            _ => SinkError::terminal(INVALID),
        })?;
        judge_hosts(&options.hosts)?;
        options.tls = None;
        options.app_name.get_or_insert_with(|| "kollect".to_owned());
        let within =
            |given: Option<Duration>, usual, longest| Some(given.unwrap_or(usual).min(longest));
        options.connect_timeout = within(options.connect_timeout, CONNECT, LONGEST_CONNECT);
        options.server_selection_timeout = within(
            options.server_selection_timeout,
            SELECTION,
            LONGEST_SELECTION,
        );
        let connections = options.max_pool_size.filter(|most| *most > 0);
        options.max_pool_size = Some(connections.unwrap_or(CONNECTIONS).min(MOST_CONNECTIONS));
        options.min_pool_size = None;
        options.read_concern = None;
        options.write_concern = None;
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        let login = guard
            .login()
            .ok_or_else(|| SinkError::terminal("mongodb connect: the door has no password"))?;
        // Last, whatever the string said.
        options.socks5_proxy = Some(
            Socks5Proxy::builder()
                .host(guard.address().ip().to_string())
                .port(guard.address().port())
                .authentication((login.user.to_owned(), login.password.expose().to_owned()))
                .build(),
        );
        Ok(options)
    }
}

fn host_of(address: &ServerAddress) -> &str {
    match address {
        ServerAddress::Tcp { host, .. } => host,
        // Refused already.
        _ => "",
    }
}

/// Sockets in the file system are opened past every guard, and thousands of hosts are no set.
fn judge_hosts(hosts: &[ServerAddress]) -> Result<(), SinkError> {
    if hosts
        .iter()
        .any(|host| !matches!(host, ServerAddress::Tcp { .. }))
    {
        return Err(unsupported(
            "the connection string names a socket of the operator's own machine; use a host name",
        ));
    }
    if hosts.len() > MOST_HOSTS {
        return Err(unsupported(
            "the connection string leads to more than 50 hosts",
        ));
    }
    Ok(())
}

/// Only ways to log in that need nothing of the operator's own: no files, no metadata service.
fn judge_login(string: &ConnectionString, encrypted: bool) -> Result<(), SinkError> {
    let Some(login) = &string.credential else {
        return Ok(());
    };
    match &login.mechanism {
        None | Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => Ok(()),
        Some(AuthMechanism::MongoDbX509 | AuthMechanism::Plain) if encrypted => Ok(()),
        Some(AuthMechanism::MongoDbX509 | AuthMechanism::Plain) => Err(unsupported(
            "this authMechanism needs TLS; add tls=true to the connection string",
        )),
        Some(_) => Err(unsupported(
            "authMechanism is not supported; use SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509 or PLAIN",
        )),
    }
}

fn encryption(
    options: &TlsOptions,
    trust: &Trust,
    sources: Sources<'_>,
) -> Result<ClientConfig, SinkError> {
    let file = |path: &Option<std::path::PathBuf>, key: &str, instead: &str| {
        let Some(path) = path else { return Ok(None) };
        if !sources.local_files {
            return Err(unsupported(&format!(
                "{key} of the connection string names a file, and the operator reads no files for \
                 a sink; remove {key} and {instead}"
            )));
        }
        local_file(path).map(Some).ok_or_else(|| {
            unsupported(&format!(
                "{key} of the connection string is not a readable file of at most 1 MiB"
            ))
        })
    };
    let authority = file(
        &options.ca_file_path,
        "tlsCAFile",
        "give the authority in spec.tls.caBundle or spec.tls.caSecretRef",
    )?;
    let identity = file(
        &options.cert_key_file_path,
        "tlsCertificateKeyFile",
        "put the client's certificate and key into the Secret of the connection string, under \
         tls.crt and tls.key",
    )?;
    let mut trust = trust.clone();
    if let (None, Some(pem)) = (&trust.authority, authority) {
        tls::authorities(&pem, "mongodb connect: tlsCAFile of the connection string")?;
        trust.authority = Some(pem);
    }
    trust.insecure_skip_verify |= options.allow_invalid_certificates == Some(true);
    let mut config = trust.client_config()?;
    let in_secret = |key: &str| {
        let value = sources.secret.get(key).map(|value| value.expose().to_vec());
        value.filter(|value| !value.is_empty())
    };
    let presented = match (
        identity,
        in_secret(CERTIFICATE_KEY),
        in_secret(PRIVATE_KEY_KEY),
    ) {
        (Some(both), _, _) => tls::client_certificate::present(
            &mut config,
            (&both, &both),
            ("tlsCertificateKeyFile", "tlsCertificateKeyFile"),
            "the connection string",
        ),
        (None, Some(certificate), Some(key)) => tls::client_certificate::present(
            &mut config,
            (&certificate, &key),
            (CERTIFICATE_KEY, PRIVATE_KEY_KEY),
            "the Secret",
        ),
        (None, None, Some(_)) => Err(SinkError::terminal(format!(
            "{CERTIFICATE_KEY} and {PRIVATE_KEY_KEY} of the Secret go together"
        ))),
        // A certificate alone may be there for somebody else, such as spec.tls.caSecretRef.
        (None, _, None) => Ok(()),
    };
    presented.map_err(|error| error.at("mongodb connect"))?;
    Ok(config)
}

#[cfg(test)]
mod tests;
