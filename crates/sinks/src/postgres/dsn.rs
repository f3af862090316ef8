//! The connection string.
//!
//! Both forms that PostgreSQL's own tools take are read: `postgres://user:pass@host/db?key=value`
//! and `host=… user=… key=value`. The driver has a parser of its own, but it knows three of the six
//! `sslmode`s and refuses every key it does not know, while connection strings of PostgreSQL
//! clients carry session parameters, pool sizes and certificate files.
//!
//! Whatever is wrong with a string, the error says so without quoting any of it: the string is a
//! secret.

mod keys;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use kollect_api::duration;

use self::keys::{REFUSED, WITHOUT_EFFECT};
use crate::{error::SinkError, percent, pool::Limits, redact::Redaction, secret::SecretText};

/// How long one host may take to connect, if the string does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections to one database, if the string does not say.
const MAX_CONNECTIONS: usize = 4;
/// More than this many connections help nobody.
const MOST_CONNECTIONS: usize = 64;
/// More hosts than this are no cluster of servers.
const MOST_HOSTS: usize = 32;
/// No host is waited for longer than this: a delivery has two minutes for everything.
const LONGEST_CONNECT: Duration = Duration::from_mins(2);
/// Longer strings are something else.
const LONGEST_STRING: usize = 64 * 1024;
const MAX_LIFETIME: Duration = Duration::from_hours(1);
/// Longer than the pause between two refreshes; a database has others to serve.
const MAX_IDLE: Duration = Duration::from_mins(1);

/// What is wrong with a connection string. Never says what stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum DsnError {
    /// It cannot be read.
    #[error("postgres connect: parse postgres DSN: invalid connection string")]
    Invalid,
    /// It can be read, but asks for something that a sink does not do.
    #[error("postgres connect: parse postgres DSN: {0}")]
    Unsupported(&'static str),
}

impl From<DsnError> for SinkError {
    fn from(error: DsnError) -> Self {
        SinkError::terminal(error.to_string())
    }
}

/// Where a server listens.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// The name, which is also what certificates are checked against.
    pub(super) name: String,
    /// The address to dial instead of looking the name up.
    pub(super) address: Option<String>,
    /// The port.
    pub(super) port: u16,
}

/// `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The parts of a string that concern encryption.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Ssl {
    /// As written; absent means that the string does not say.
    pub(super) mode: Option<SslMode>,
    /// `sslrootcert`: a file with authorities, or the word `system`.
    pub(super) root_certificate: Option<String>,
    /// `sslcert`: a file with the client's certificate. An operator reads none of these files.
    pub(super) certificate: Option<String>,
    /// `sslkey`: a file with the client's key.
    pub(super) key: Option<String>,
    /// `sslnegotiation=direct`: TLS from the first byte, PostgreSQL 17 and newer.
    pub(super) direct: bool,
    /// `channel_binding`.
    pub(super) channel_binding: Option<tokio_postgres::config::ChannelBinding>,
}

/// What a server has to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    /// Any.
    Any,
    /// Takes writes by default.
    ReadWrite,
    /// Is not a standby.
    Primary,
}

/// A connection string, read. Not printable.
#[derive(Clone, PartialEq)]
pub(super) struct Dsn {
    pub(super) hosts: Vec<Host>,
    /// Try hosts in random order.
    pub(super) shuffled: bool,
    pub(super) attributes: Attributes,
    /// Empty if the string names none.
    pub(super) user: String,
    pub(super) password: Option<SecretText>,
    pub(super) database: Option<String>,
    pub(super) ssl: Ssl,
    pub(super) connect_timeout: Duration,
    pub(super) application_name: Option<String>,
    /// Command line options for the server process, verbatim.
    pub(super) options: Option<String>,
    /// Session parameters: every key that means nothing else.
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) pool: Limits,
}

type Pairs = BTreeMap<String, String>;

impl Dsn {
    /// Reads a connection string of either form.
    pub(super) fn parse(text: &str) -> Result<Self, DsnError> {
        if text.len() > LONGEST_STRING {
            return Err(DsnError::Unsupported(
                "the connection string is longer than 64 KiB",
            ));
        }
        let url = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let pairs = match url {
            Some(rest) => url_pairs(rest)?,
            None => keyword_pairs(text)?,
        };
        Self::of(pairs)
    }

    /// A redaction that also removes what this string says of place and person.
    pub(super) fn hidden_by(&self, redaction: Redaction) -> Redaction {
        let hosts = self
            .hosts
            .iter()
            .flat_map(|host| [Some(&host.name), host.address.as_ref()]);
        let names = hosts
            .chain([Some(&self.user), self.database.as_ref()])
            .flatten()
            .map(|text| SecretText::from(text.as_str()));
        redaction.and_names(names).and(self.password.clone())
    }

    fn of(mut pairs: Pairs) -> Result<Self, DsnError> {
        for (key, reason) in REFUSED {
            if pairs.remove(key).is_some() {
                return Err(DsnError::Unsupported(reason));
            }
        }
        let mut take = |key: &str| pairs.remove(key).filter(|value| !value.is_empty());
        let hosts = hosts(take("host"), take("hostaddr"), take("port"))?;
        let attributes = match take("target_session_attrs").as_deref() {
            None | Some("any" | "prefer-standby") => Attributes::Any,
            Some("read-write") => Attributes::ReadWrite,
            Some("primary") => Attributes::Primary,
            Some("read-only" | "standby") => {
                return Err(DsnError::Unsupported(
                    "target_session_attrs asks for a server that takes no writes",
                ));
            }
            Some(_) => return Err(DsnError::Invalid),
        };
        let shuffled = match take("load_balance_hosts").as_deref() {
            None | Some("disable") => false,
            Some("random") => true,
            Some(_) => return Err(DsnError::Invalid),
        };
        let ssl = Ssl {
            mode: take("sslmode").as_deref().map(ssl_mode).transpose()?,
            root_certificate: take("sslrootcert"),
            certificate: take("sslcert"),
            key: take("sslkey"),
            direct: match take("sslnegotiation").as_deref() {
                None | Some("postgres") => false,
                Some("direct") => true,
                Some(_) => return Err(DsnError::Invalid),
            },
            channel_binding: take("channel_binding")
                .as_deref()
                .map(channel_binding)
                .transpose()?,
        };
        let connect_timeout = match take("connect_timeout") {
            None => CONNECT_TIMEOUT,
            Some(text) => match text.trim().parse::<i64>() {
                Ok(seconds) if seconds > 0 => {
                    Duration::from_secs(seconds.unsigned_abs()).min(LONGEST_CONNECT)
                }
                Ok(_) => CONNECT_TIMEOUT,
                Err(_) => return Err(DsnError::Invalid),
            },
        };
        let pool = Limits {
            connections: match take("pool_max_conns") {
                None => MAX_CONNECTIONS,
                Some(text) => text
                    .trim()
                    .parse::<usize>()
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or(DsnError::Invalid)?
                    .min(MOST_CONNECTIONS),
            },
            lifetime: period(take("pool_max_conn_lifetime"), MAX_LIFETIME)?,
            idle: period(take("pool_max_conn_idle_time"), MAX_IDLE)?,
        };
        let database = take("dbname");
        let database = take("database").or(database);
        let dsn = Self {
            hosts,
            shuffled,
            attributes,
            user: take("user").unwrap_or_default(),
            password: take("password").map(SecretText::from),
            database,
            ssl,
            connect_timeout,
            application_name: take("application_name").or(take("fallback_application_name")),
            options: take("options"),
            parameters: BTreeMap::new(),
            pool,
        };
        let parameters: BTreeMap<_, _> = pairs
            .into_iter()
            .filter(|(key, _)| !key.starts_with("pool_") && !WITHOUT_EFFECT.contains(&&**key))
            .collect();
        if !parameters.keys().all(|name| is_parameter_name(name)) {
            return Err(DsnError::Invalid);
        }
        Ok(Self { parameters, ..dsn })
    }
}

/// Whether a text can name a session parameter: `statement_timeout`, `myapp.tenant`.
pub(super) fn is_parameter_name(name: &str) -> bool {
    name.split('.').all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
    })
}

fn hosts(
    names: Option<String>,
    addresses: Option<String>,
    ports: Option<String>,
) -> Result<Vec<Host>, DsnError> {
    let list = |text: Option<String>| -> Vec<String> {
        text.map(|text| text.split(',').map(|item| item.trim().to_owned()).collect())
            .unwrap_or_default()
    };
    let (names, addresses, ports) = (list(names), list(addresses), list(ports));
    let count = names.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    if count == 0 {
        return Err(DsnError::Unsupported("the connection string has no host"));
    }
    if count > MOST_HOSTS {
        return Err(DsnError::Unsupported(
            "the connection string has more than 32 hosts",
        ));
    }
    if !fits(names.len()) || !fits(addresses.len()) || !(fits(ports.len()) || ports.len() == 1) {
        return Err(DsnError::Invalid);
    }
    (0..count)
        .map(|index| {
            let text = |list: &[String]| list.get(index).filter(|text| !text.is_empty()).cloned();
            let address = text(&addresses);
            let name = text(&names)
                .or_else(|| address.clone())
                .ok_or(DsnError::Invalid)?;
            if name.starts_with(['/', '@']) {
                return Err(DsnError::Unsupported(
                    "Unix sockets are not reachable for a sink; give a host",
                ));
            }
            let port = match ports.get(index).or(ports.first()).map(String::as_str) {
                None | Some("") => 5432,
                Some(text) => text
                    .parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or(DsnError::Invalid)?,
            };
            Ok(Host {
                name,
                address,
                port,
            })
        })
        .collect()
}

fn ssl_mode(text: &str) -> Result<SslMode, DsnError> {
    Ok(match text {
        "disable" => SslMode::Disable,
        "allow" => SslMode::Allow,
        "prefer" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-ca" => SslMode::VerifyCa,
        "verify-full" => SslMode::VerifyFull,
        _ => return Err(DsnError::Invalid),
    })
}

fn channel_binding(text: &str) -> Result<tokio_postgres::config::ChannelBinding, DsnError> {
    use tokio_postgres::config::ChannelBinding;
    Ok(match text {
        "disable" => ChannelBinding::Disable,
        "prefer" => ChannelBinding::Prefer,
        "require" => ChannelBinding::Require,
        _ => return Err(DsnError::Invalid),
    })
}

fn period(text: Option<String>, default: Duration) -> Result<Duration, DsnError> {
    let Some(text) = text else {
        return Ok(default);
    };
    let period = duration::Duration::new(text)
        .get()
        .map_err(|_| DsnError::Invalid)?;
    Ok(if period.is_zero() { default } else { period })
}

/// `user:password@host:port,host:port/database?key=value&…`, as pairs.
fn url_pairs(rest: &str) -> Result<Pairs, DsnError> {
    let (before_query, query) = match rest.split_once('?') {
        Some((front, query)) => (front, Some(query)),
        None => (rest, None),
    };
    let (authority, database) = match before_query.split_once('/') {
        Some((authority, database)) => (authority, Some(database)),
        None => (before_query, None),
    };
    let (credentials, servers) = match authority.rsplit_once('@') {
        Some((credentials, servers)) => (Some(credentials), servers),
        None => (None, authority),
    };
    let mut pairs = Pairs::new();
    if let Some(credentials) = credentials {
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (credentials, None),
        };
        pairs.insert("user".into(), decode(user)?);
        if let Some(password) = password {
            pairs.insert("password".into(), decode(password)?);
        }
    }
    if !servers.is_empty() {
        let (mut names, mut ports) = (Vec::new(), Vec::new());
        for server in servers.split(',') {
            let (name, port) = server_parts(server)?;
            names.push(decode(name)?);
            ports.push(decode(port)?);
        }
        pairs.insert("host".into(), names.join(","));
        pairs.insert("port".into(), ports.join(","));
    }
    if let Some(database) = database.filter(|name| !name.is_empty()) {
        pairs.insert("dbname".into(), decode(database)?);
    }
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        if pair.is_empty() {
            continue;
        }
        let (key, value) = pair.split_once('=').ok_or(DsnError::Invalid)?;
        pairs.insert(decode(key)?, decode(value)?);
    }
    Ok(pairs)
}

/// Host and port of `host`, `host:port`, `[v6]` or `[v6]:port`; the port may be empty.
fn server_parts(server: &str) -> Result<(&str, &str), DsnError> {
    if let Some(rest) = server.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or(DsnError::Invalid)?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((address, port)),
            None if rest.is_empty() => Ok((address, "")),
            None => Err(DsnError::Invalid),
        };
    }
    let (name, port) = server.split_once(':').unwrap_or((server, ""));
    if port.contains(':') {
        return Err(DsnError::Invalid);
    }
    Ok((name, port))
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, DsnError> {
    let bytes = percent::decoded(text).ok_or(DsnError::Invalid)?;
    String::from_utf8(bytes).map_err(|_| DsnError::Invalid)
}

/// `key = value` pairs, values quoted with `'` if they are empty or have blanks in them.
fn keyword_pairs(text: &str) -> Result<Pairs, DsnError> {
    let mut pairs = Pairs::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or(DsnError::Invalid)?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(DsnError::Invalid);
        }
        let (value, after) = keyword_value(after.trim_start())?;
        pairs.insert(key.to_owned(), value);
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// One value and what follows it.
fn keyword_value(text: &str) -> Result<(String, &str), DsnError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.push(characters.next().ok_or(DsnError::Invalid)?.1),
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            blank if !quoted && blank.is_whitespace() => return Ok((value, &body[at..])),
            other => value.push(other),
        }
    }
    if quoted {
        Err(DsnError::Invalid)
    } else {
        Ok((value, ""))
    }
}
