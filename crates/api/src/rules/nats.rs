//! What a NATS sink may be told: subjects, streams, servers.

use std::{fmt, num::NonZeroU16};

/// The port of a server whose URL names none.
const PORT: u16 = 4222;

/// The most servers that one sink may name.
const MOST_SERVERS: usize = 32;

/// One server of a NATS sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name or address, without the brackets of IPv6.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether TLS is required (`tls://`), or only done if the server asks for it (`nats://`).
    pub tls: bool,
}

/// Why a list of servers does not do. No variant repeats it: it may hold credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServersError {
    /// A user or a password stands in it.
    Credentials,
    /// A scheme that is not spoken.
    Scheme,
    /// No host, or a port that is no number.
    Address,
    /// Too many.
    Number,
}

impl std::error::Error for ServersError {}

impl fmt::Display for ServersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServersError::Credentials => {
                f.write_str("must hold no user or password; put them into the Secret of secretRef")
            }
            ServersError::Scheme => f.write_str("must begin with nats:// or tls://"),
            ServersError::Address => {
                f.write_str("must be nats://host:port or tls://host:port, several with commas")
            }
            ServersError::Number => write!(f, "must name at most {MOST_SERVERS} servers"),
        }
    }
}

/// Whether messages can be published to a subject; otherwise what it has to be like.
pub fn subject(subject: &str) -> Result<(), &'static str> {
    let subject = subject.trim();
    if subject.is_empty() {
        return Err("subject to publish to");
    }
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>');
    if subject.contains(bad) {
        return Err("must hold no blanks and no wildcards (* and >)");
    }
    if subject.split('.').any(str::is_empty) {
        return Err("must be words with single dots between them");
    }
    if subject.starts_with('$') {
        return Err("must not begin with $: such subjects belong to the server");
    }
    Ok(())
}

/// Whether a stream can have a name; blank stands for the default.
pub fn stream(name: &str) -> Result<(), &'static str> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.trim().chars().all(good) {
        Ok(())
    } else {
        Err("must consist of letters, digits, - and _ (dots become _)")
    }
}

/// The servers that a URL, or several with commas between them, name.
pub fn servers(urls: &str) -> Result<Vec<Server>, ServersError> {
    let urls: Vec<&str> = urls
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .collect();
    if urls.is_empty() {
        return Err(ServersError::Address);
    }
    if urls.len() > MOST_SERVERS {
        return Err(ServersError::Number);
    }
    urls.into_iter().map(server).collect()
}

fn server(url: &str) -> Result<Server, ServersError> {
    if url.contains('@') {
        return Err(ServersError::Credentials);
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "nats" => false,
        "tls" => true,
        _ => return Err(ServersError::Scheme),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '\\']) {
        return Err(ServersError::Address);
    }
    let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or(ServersError::Address)?;
        (
            host,
            rest.strip_prefix(':').or(rest.is_empty().then_some("")),
        )
    } else if rest.parse::<std::net::Ipv6Addr>().is_ok() {
        (rest, Some(""))
    } else {
        match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, Some("")),
        }
    };
    let port = match port.ok_or(ServersError::Address)? {
        "" => PORT,
        text => text
            .parse::<NonZeroU16>()
            .map_err(|_| ServersError::Address)?
            .get(),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(ServersError::Address);
    }
    Ok(Server {
        host: host.to_owned(),
        port,
        tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects() {
        for (text, good) in [
            ("inventory.events", true),
            (" inventory ", true),
            ("a.b-c_d.e", true),
            ("", false),
            ("a..b", false),
            (".a", false),
            ("a.", false),
            ("a.*", false),
            ("a.>", false),
            ("a b", false),
            ("$JS.API.STREAM.DELETE.x", false),
        ] {
            assert_eq!(subject(text).is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn streams() {
        for (text, good) in [
            ("", true),
            ("kollect_events", true),
            ("team.inventory", true),
            ("a/b", false),
            ("a b", false),
            ("a>", false),
            ("ä", false),
        ] {
            assert_eq!(stream(text).is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn server_lists() {
        let server = |host: &str, port, tls| Server {
            host: host.to_owned(),
            port,
            tls,
        };
        for (text, expected) in [
            (
                "nats://n.example.com:4223",
                Ok(vec![server("n.example.com", 4223, false)]),
            ),
            (
                "n.example.com",
                Ok(vec![server("n.example.com", 4222, false)]),
            ),
            (
                "TLS://n.example.com/",
                Ok(vec![server("n.example.com", 4222, true)]),
            ),
            ("[2001:db8::1]:1", Ok(vec![server("2001:db8::1", 1, false)])),
            ("2001:db8::1", Ok(vec![server("2001:db8::1", 4222, false)])),
            (
                "nats://a:1, tls://b:2,",
                Ok(vec![server("a", 1, false), server("b", 2, true)]),
            ),
            ("", Err(ServersError::Address)),
            ("nats://:4222", Err(ServersError::Address)),
            ("nats://a:0", Err(ServersError::Address)),
            ("nats://a:port", Err(ServersError::Address)),
            ("nats://a/path", Err(ServersError::Address)),
            ("[::1", Err(ServersError::Address)),
            ("[::1]x", Err(ServersError::Address)),
            ("ws://a", Err(ServersError::Scheme)),
            ("nats://user:hunter2@a:1", Err(ServersError::Credentials)),
            ("nats://a,token@b", Err(ServersError::Credentials)),
        ] {
            assert_eq!(servers(text), expected, "{text:?}");
        }
        assert_eq!(servers(&"a,".repeat(33)), Err(ServersError::Number));
    }
}
