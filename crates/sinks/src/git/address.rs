//! Where a repository is.
//!
//! An endpoint is read by hand rather than by a general URL reader: what Git understands is a small
//! language of its own, and a text that two readers take differently is how guards are fooled.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use kollect_api::rules;

use super::error::GitError;
use crate::percent;

/// Where a repository is. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// `https://` or `http://`.
    Http {
        /// Whether the connection is encrypted.
        secure: bool,
        /// Name or address; an IPv6 address without brackets.
        host: String,
        /// The port, if it is not the usual one.
        port: Option<u16>,
        /// Path and query, beginning with a slash, without one at the end.
        path: String,
    },
    /// `ssh://user@host:port/path` or `user@host:path`.
    Ssh {
        /// The user, if the endpoint names one.
        user: Option<String>,
        /// Name or address; an IPv6 address without brackets.
        host: String,
        /// The port, if it is not 22.
        port: Option<u16>,
        /// The path as the server's shell gets to see it.
        path: String,
    },
    /// A bare repository on this machine.
    File(PathBuf),
}

/// An endpoint taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Where the repository is.
    pub(super) address: Address,
    /// What the endpoint says about the branch.
    pub(super) branch: Option<String>,
}

impl Endpoint {
    /// Reads `spec.endpoint`. Errors do not repeat it, since it may hold a password.
    pub(super) fn parse(endpoint: &str) -> Result<Self, GitError> {
        let endpoint = endpoint.trim();
        if endpoint.is_empty() {
            return wrong("spec.endpoint is empty; set the URL of the repository");
        }
        if endpoint.starts_with('-')
            || endpoint.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\')
        {
            return wrong(
                "spec.endpoint must be a URL without blanks, backslashes or control characters",
            );
        }
        let (location, fragment) = match endpoint.split_once('#') {
            Some((location, fragment)) => (location, Some(fragment)),
            None => (endpoint, None),
        };
        let branch = fragment
            .and_then(|fragment| fragment.strip_prefix("branch="))
            .filter(|branch| !branch.is_empty())
            .map(str::to_owned);
        Ok(Self {
            address: Address::parse(location)?,
            branch,
        })
    }
}

impl Address {
    fn parse(location: &str) -> Result<Self, GitError> {
        let Some((scheme, rest)) = location.split_once("://") else {
            return Self::parse_short(location);
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (user, host_port) = match authority.rsplit_once('@') {
            // What stands before the colon is the user; a password has no business here.
            Some((userinfo, host_port)) => (userinfo.split(':').next(), host_port),
            None => (None, authority),
        };
        match scheme.to_ascii_lowercase().as_str() {
            scheme @ ("https" | "http") => {
                let (host, port) = host_and_port(host_port)?;
                Ok(Address::Http {
                    secure: scheme == "https",
                    host,
                    port,
                    path: path.trim_end_matches('/').to_owned(),
                })
            }
            "ssh" => {
                let (host, port) = host_and_port(host_port)?;
                let path = percent_decoded(path)?;
                // `/~user/…` is a home directory, which only the server's shell can find.
                let path = match path.strip_prefix("/~") {
                    Some(rest) => format!("~{rest}"),
                    None => path,
                };
                if path.trim_matches('/').is_empty() {
                    return wrong("spec.endpoint names no repository; add its path");
                }
                Ok(Address::Ssh {
                    user: user.filter(|user| !user.is_empty()).map(str::to_owned),
                    host,
                    port,
                    path,
                })
            }
            "file" => {
                if !matches!(authority, "" | "localhost") {
                    return wrong(
                        "a file:// endpoint has three slashes, such as file:///srv/r.git",
                    );
                }
                Ok(Address::File(cleaned(&percent_decoded(path)?)?))
            }
            other => wrong(format!(
                "scheme {other:?} of spec.endpoint is not supported; use https, http or ssh"
            )),
        }
    }

    /// `user@host:path`, as people write it for SSH.
    fn parse_short(location: &str) -> Result<Self, GitError> {
        let (user, rest) = match location.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, location),
        };
        let split = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => rest.strip_prefix(':').map(|path| (host, path)),
            None => rest.split_once(':'),
        };
        match split {
            Some((host, path))
                if !host.is_empty()
                    && !host.contains('/')
                    && !path.is_empty()
                    && !path.starts_with(['-', ':']) =>
            {
                Ok(Address::Ssh {
                    user: user.filter(|user| !user.is_empty()).map(str::to_owned),
                    host: host.to_owned(),
                    port: None,
                    path: path.to_owned(),
                })
            }
            _ => wrong("spec.endpoint must be an https, http or ssh URL"),
        }
    }

    /// The repository's URL without user and password; the same repository has the same text.
    pub(super) fn url(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port, path) = match self {
            Address::Http {
                secure,
                host,
                port,
                path,
            } => (if *secure { "https" } else { "http" }, host, port, path),
            Address::Ssh {
                host, port, path, ..
            } => ("ssh", host, port, path),
            Address::File(path) => return write!(f, "file://{}", path.display()),
        };
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]")?;
        } else {
            write!(f, "{scheme}://{host}")?;
        }
        if let Some(port) = port {
            write!(f, ":{port}")?;
        }
        let slash = if path.is_empty() || path.starts_with('/') {
            ""
        } else {
            "/"
        };
        write!(f, "{slash}{path}")
    }
}

/// The branch in force: configured, else of the endpoint, else `main`.
pub(super) fn branch(configured: Option<&str>, endpoint: &Endpoint) -> Result<String, GitError> {
    let name = configured
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .or(endpoint.branch.as_deref())
        .unwrap_or("main");
    match rules::branch(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(detail) => wrong(format!("branch {name:?} {detail}")),
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), GitError> {
    let (host, port) = match authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return wrong("spec.endpoint names no host");
    }
    match port.filter(|port| !port.is_empty()).map(str::parse) {
        None => Ok((host.to_owned(), None)),
        Some(Ok(port)) => Ok((host.to_owned(), Some(port))),
        Some(Err(_)) => wrong("the port of spec.endpoint is no number up to 65535"),
    }
}

/// An absolute path without `.` and `..`.
fn cleaned(path: &str) -> Result<PathBuf, GitError> {
    let mut clean = PathBuf::from("/");
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if path.contains(['\0', '\r', '\n']) || clean == Path::new("/") {
        return wrong("the path of a file:// endpoint is empty or holds control characters");
    }
    Ok(clean)
}

fn percent_decoded(text: &str) -> Result<String, GitError> {
    let Some(bytes) = percent::decoded(text) else {
        return wrong("spec.endpoint has a percent sign that two hex digits do not follow");
    };
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains(['\0', '\r', '\n']) => Ok(text),
        _ => wrong("the path of spec.endpoint is not plain text"),
    }
}

fn wrong<T>(text: impl Into<String>) -> Result<T, GitError> {
    Err(GitError::Configuration(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endpoint, URL, SSH user, branch (S01 to S03 among them).
    const GOOD: &[(&str, &str, Option<&str>, Option<&str>)] = &[
        (
            "https://git.example/r.git#branch=develop",
            "https://git.example/r.git",
            None,
            Some("develop"),
        ),
        (
            "https://u:p@git.example/r.git",
            "https://git.example/r.git",
            None,
            None,
        ),
        (
            " https://git.example:8443/g/r.git/ ",
            "https://git.example:8443/g/r.git",
            None,
            None,
        ),
        (
            "https://git.example/r.git#branch=",
            "https://git.example/r.git",
            None,
            None,
        ),
        (
            "https://git.example/r.git#readme",
            "https://git.example/r.git",
            None,
            None,
        ),
        ("HTTP://git.example/r", "http://git.example/r", None, None),
        (
            "https://[2001:db8::1]:8443/r",
            "https://[2001:db8::1]:8443/r",
            None,
            None,
        ),
        (
            "ssh://deploy@git.example:2222/o/r.git",
            "ssh://git.example:2222/o/r.git",
            Some("deploy"),
            None,
        ),
        (
            "ssh://git.example/~bot/r.git",
            "ssh://git.example/~bot/r.git",
            None,
            None,
        ),
        (
            "git@git.example:o/r.git#branch=x",
            "ssh://git.example/o/r.git",
            Some("git"),
            Some("x"),
        ),
        (
            "ssh://git.example/a%20b.git",
            "ssh://git.example/a b.git",
            None,
            None,
        ),
        (
            "ssh://git.example/a+b%25.git",
            "ssh://git.example/a+b%.git",
            None,
            None,
        ),
        ("file:///srv/./x/../r.git", "file:///srv/r.git", None, None),
    ];

    #[test]
    fn endpoints_are_taken_apart() {
        for (text, url, user, branch) in GOOD {
            let endpoint = Endpoint::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(endpoint.address.url(), *url, "{text}");
            assert_eq!(endpoint.branch.as_deref(), *branch, "{text}");
            if let Address::Ssh { user: read, .. } = &endpoint.address {
                assert_eq!(read.as_deref(), *user, "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_being_repeated() {
        for text in [
            "",
            "   ",
            "-oProxyCommand=x",
            "--upload-pack=x",
            "ext::sh -c id",
            "git://hunter2@git.example/r",
            "ftp://u:hunter2@git.example/r",
            "https:///r",
            "https://git.example:99999/hunter2",
            "ssh://git.example",
            "ssh://git.example/%zz",
            "ssh://git.example/%%41",
            "ssh://git.example/%ff",
            "file:///srv/%2",
            "ssh://git.example/%0a",
            "file://host/r",
            "file:///",
            "/srv/hunter2.git",
            "git@host:-x",
            "a b",
        ] {
            let error = Endpoint::parse(text).expect_err(text);
            assert!(
                matches!(error, GitError::Configuration(_)),
                "{text}: {error:?}"
            );
            assert!(!error.to_string().contains("hunter2"), "{text}: {error}");
        }
    }

    #[test]
    fn the_branch_is_configured_or_of_the_endpoint_or_main() {
        let with = Endpoint::parse("https://git.example/r.git#branch=develop").unwrap();
        let without = Endpoint::parse("https://git.example/r.git").unwrap();
        assert_eq!(branch(None, &with).unwrap(), "develop");
        assert_eq!(branch(Some("main"), &with).unwrap(), "main");
        assert_eq!(branch(Some("  "), &with).unwrap(), "develop");
        assert_eq!(branch(None, &without).unwrap(), "main");
        for bad in [
            "-x",
            ".hidden",
            "a..b",
            "refs/heads/main",
            "a b",
            "; rm",
            "branch.lock",
            "branch.",
            "@",
            "branch@{x}",
        ] {
            assert!(branch(Some(bad), &without).is_err(), "{bad}");
        }
        for good in ["main", "kollect/team-a/inventory", "release-1.2.3"] {
            assert_eq!(branch(Some(good), &without).unwrap(), good);
        }
    }
}
