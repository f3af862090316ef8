//! The hosts that the endpoint of a sink names, and whether they may be reached.

use crate::{address::AddressPolicy, reference::SinkFamily, sink::SinkType};

/// Why an endpoint does not do. No variant repeats the endpoint: it may hold credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The host is on the list of forbidden names or addresses.
    #[error("endpoint host {0:?} is not allowed: it is local, private or a platform service")]
    Host(String),
    /// A path on the operator's own disk.
    #[error("file:// endpoints and local paths are not allowed; use https or ssh")]
    Local,
    /// A scheme that is none of the usual ones.
    #[error("scheme {0:?} is not supported; use https, http, ssh, git or user@host:path")]
    Scheme(String),
    /// Characters that different URL readers take differently.
    #[error("must not contain blanks, backslashes or control characters")]
    Ambiguous,
}

/// Judges the endpoint of a sink.
pub fn check(
    type_: SinkType,
    endpoint: &str,
    addresses: &AddressPolicy,
    local_repositories: bool,
) -> Result<(), EndpointError> {
    let endpoint = endpoint.trim();
    if endpoint.is_empty() {
        return Ok(());
    }
    if endpoint.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(EndpointError::Ambiguous);
    }
    let hosts: Vec<&str> = match type_ {
        SinkType::Git | SinkType::Gitlab => git_host(endpoint, local_repositories)?,
        _ if type_.is_object_store() => store_host(endpoint)?,
        SinkType::Nats => endpoint
            .split(',')
            .map(|server| address_host(server.trim()))
            .collect(),
        // Databases have their address in a Secret; everything else is judged as an address.
        _ if type_.family() == SinkFamily::Database => Vec::new(),
        _ => vec![address_host(endpoint)],
    };
    match hosts.into_iter().find(|host| !addresses.allows_host(host)) {
        Some(host) => Err(EndpointError::Host(crate::address::normalize(host))),
        None => Ok(()),
    }
}

/// `https://…`, `ssh://…` or `user@host:path`; anything else would be run by Git as a local path or
/// a transport helper.
fn git_host(endpoint: &str, local_repositories: bool) -> Result<Vec<&str>, EndpointError> {
    if let Some((scheme, rest)) = endpoint.split_once("://") {
        return match scheme.to_ascii_lowercase().as_str() {
            "https" | "http" | "ssh" | "git" => Ok(vec![host_of_authority(rest)]),
            "file" if local_repositories => Ok(Vec::new()),
            "file" => Err(EndpointError::Local),
            other => Err(EndpointError::Scheme(other.to_owned())),
        };
    }
    if let Some((helper, _)) = endpoint.split_once("::")
        && !helper.contains(['[', '@', '/'])
    {
        return Err(EndpointError::Scheme(helper.to_owned()));
    }
    let after_user = endpoint.rsplit_once('@').map_or(endpoint, |(_, rest)| rest);
    let host = match after_user
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, tail)) if tail.starts_with(':') => Some(host),
        _ => after_user.split_once(':').map(|(host, _)| host),
    };
    match host {
        Some(host) if !host.contains('/') => Ok(vec![host]),
        _ if local_repositories => Ok(Vec::new()),
        // Something without any separator is not a path anybody could mean.
        _ if endpoint.contains('/') || endpoint.starts_with('.') => Err(EndpointError::Local),
        _ => Ok(vec![endpoint]),
    }
}

/// `s3://bucket/prefix`, `gs://…` and `az://…` name a bucket; everything else names a host.
fn store_host(endpoint: &str) -> Result<Vec<&str>, EndpointError> {
    match endpoint.split_once("://") {
        Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
            "s3" | "gs" | "az" => Ok(Vec::new()),
            "file" => Err(EndpointError::Local),
            _ => Ok(vec![host_of_authority(rest)]),
        },
        None if endpoint.split('/').next().unwrap_or_default().contains(':') => {
            Ok(vec![host_of_authority(endpoint)])
        }
        None => Ok(Vec::new()),
    }
}

/// The host of `scheme://host:port/…`, `host:port`, `[v6]:port`, a bare IPv6 address or a bare
/// host.
fn address_host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    if rest.parse::<std::net::Ipv6Addr>().is_ok() {
        rest
    } else {
        host_of_authority(rest)
    }
}

/// The host of `user:password@host:port/path`.
fn host_of_authority(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_port = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host_port)| host_port);
    if let Some((host, _)) = host_port
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        return host;
    }
    host_port
        .rsplit_once(':')
        .map_or(host_port, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(type_: SinkType, endpoint: &str) -> (bool, bool) {
        let open = AddressPolicy {
            allow_private: true,
            ..AddressPolicy::default()
        };
        (
            check(type_, endpoint, &AddressPolicy::default(), false).is_ok(),
            check(type_, endpoint, &open, false).is_ok(),
        )
    }

    #[test]
    fn git_endpoints() {
        for (endpoint, by_default, with_private) in [
            ("https://git.example.com/r.git", true, true),
            ("git@git.example.com:o/r.git", true, true),
            ("ssh://git@git.example.com:2222/o/r.git", true, true),
            ("https://git.example.com/r.git#branch=main", true, true),
            ("https://10.1.2.3/r", false, true),
            ("https://172.16.0.1/r", false, true),
            ("https://192.168.0.1/r", false, true),
            ("https://[fd00::1]/r", false, true),
            ("git@10.0.0.1:r.git", false, true),
            ("https://127.0.0.1/r", false, false),
            ("https://[::1]/r", false, false),
            ("https://LOCALHOST./r", false, false),
            ("https://x.localhost/r", false, false),
            ("https://169.254.169.254/", false, false),
            ("https://[fd00:ec2::254]/", false, false),
            ("https://[fe80::1%25eth0]/", false, false),
            ("https://100.64.0.1/", false, false),
            ("https://198.18.0.1/", false, false),
            ("https://0.0.0.0/", false, false),
            ("https://224.0.0.1/", false, false),
            ("https://239.1.1.1/", false, false),
            ("https://[::ffff:127.0.0.1]/", false, false),
            ("https://[::ffff:10.0.0.1]/", false, true),
            ("https://[::ffff:100.64.0.1]/", false, false),
            ("https://2130706433/", false, false),
            ("https://0x7f.1/", false, false),
            ("file:///repo.git", false, false),
            ("FILE:///repo.git", false, false),
            ("/repo.git", false, false),
            ("../repo.git", false, false),
            ("ext::sh -c id", false, false),
            ("ext::sh", false, false),
            ("git@[::1]:r", false, false),
            ("https://git.example.com\\@127.0.0.1/", false, false),
            ("https://user:secret@127.0.0.1/r", false, false),
            ("ftp://git.example.com/r", false, false),
            ("https://svc.ns.svc.cluster.local/r", true, true),
            ("not-a-url", true, true),
            ("", true, true),
        ] {
            assert_eq!(
                verdicts(SinkType::Git, endpoint),
                (by_default, with_private),
                "{endpoint:?}"
            );
        }
        let policy = AddressPolicy::default();
        assert!(check(SinkType::Git, "file:///repo.git", &policy, true).is_ok());
        assert!(check(SinkType::Git, "./repo", &policy, true).is_ok());
    }

    #[test]
    fn other_endpoints() {
        for (type_, endpoint, by_default, with_private) in [
            (SinkType::S3, "s3://10.0.0.1/x", true, true),
            (SinkType::S3, "bucket/prefix", true, true),
            (SinkType::S3, "https://10.0.0.5:9000/bucket", false, true),
            (SinkType::S3, "10.0.0.5:9000/bucket", false, true),
            (SinkType::S3, "file:///x", false, false),
            (SinkType::Gcs, "gs://bucket", true, true),
            (SinkType::Azureblob, "az://container/prefix", true, true),
            (
                SinkType::Azureblob,
                "http://169.254.169.254/acct/box",
                false,
                false,
            ),
            (SinkType::Nats, "nats://127.0.0.1:4222", false, false),
            (
                SinkType::Nats,
                "nats://n.example.com:4222,nats://127.0.0.1:4222",
                false,
                false,
            ),
            (SinkType::Nats, "127.0.0.1:4222", false, false),
            (SinkType::Nats, "nats://n.example.com:4222", true, true),
            (SinkType::Kafka, "ok.example.com:9092", true, true),
            (SinkType::Kafka, "[::1]:9092", false, false),
            (SinkType::Kafka, "::1", false, false),
            (SinkType::Kafka, "10.0.0.1", false, true),
            (SinkType::Kafka, "SASL_SSL://127.0.0.1:9093", false, false),
        ] {
            assert_eq!(
                verdicts(type_, endpoint),
                (by_default, with_private),
                "{endpoint:?}"
            );
        }
    }

    #[test]
    fn messages_do_not_repeat_credentials() {
        let policy = AddressPolicy::default();
        for endpoint in ["https://user:hunter2@127.0.0.1/r", "ftp://user:hunter2@x/r"] {
            let error = check(SinkType::Git, endpoint, &policy, false).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
