//! Git over SSH.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use russh::{
    ChannelMsg, ChannelReadHalf, ChannelWriteHalf,
    client::{self, AuthResult, Handle, Msg},
    keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate, decode_secret_key},
};

use super::{
    Line,
    known_hosts::KnownHosts,
    leash::{Leash, Leashed},
};
use crate::{
    dial::Dialer,
    git::{
        error::{GitError, MOST_WORDS, complaint, words},
        pkt::{Allowance, PktReader, Source},
        protocol::Service,
    },
    secret::SecretText,
};

/// A connection on which nothing is heard for so long is given up. Servers are asked for a sign of
/// life before that.
const SILENCE: Duration = Duration::from_mins(1);

/// Which host keys are accepted.
#[derive(Debug, Clone)]
pub(in crate::git) enum HostKeys {
    /// Those of a `known_hosts` file.
    Known(KnownHosts),
    /// Any: `tls.insecureSkipVerify`.
    Any,
}

/// How to reach repositories over SSH.
#[derive(Clone)]
pub(in crate::git) struct SshTransport {
    pub(in crate::git) dialer: Dialer,
    pub(in crate::git) user: String,
    pub(in crate::git) host: String,
    pub(in crate::git) port: u16,
    pub(in crate::git) path: String,
    pub(in crate::git) key: Arc<PrivateKey>,
    pub(in crate::git) host_keys: HostKeys,
}

impl fmt::Debug for SshTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshTransport")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("host_keys", &self.host_keys)
            .finish_non_exhaustive()
    }
}

/// Reads a private key. What is wrong with it is said without repeating any of it.
pub(in crate::git) fn private_key(text: &SecretText) -> Result<Arc<PrivateKey>, GitError> {
    let unusable =
        |reason: &str| GitError::Configuration(format!("the SSH key of the Secret {reason}"));
    match decode_secret_key(text.expose(), None) {
        Ok(key) if key.is_encrypted() => Err(russh::keys::Error::KeyIsEncrypted),
        other => other,
    }
    .map(Arc::new)
    .map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => {
            unusable("has a passphrase; store one without, such as ssh-keygen -N '' makes")
        }
        _ => unusable("cannot be read; it must be an OpenSSH or PKCS#8 PEM private key"),
    })
}

/// A connection on which services can be opened.
pub(in crate::git) struct SshConnection {
    handle: Handle<Watch>,
    path: String,
    /// Ends the connection, whatever the server does.
    _leash: Leash,
}

impl SshTransport {
    /// Connects, checks the host key and logs in.
    pub(in crate::git) async fn connect(&self) -> Result<SshConnection, GitError> {
        let stream = self
            .dialer
            .connect(&self.host, self.port)
            .await
            .map_err(|error| GitError::Sink(error.into()))?;
        let mut config = client::Config {
            inactivity_timeout: Some(SILENCE),
            keepalive_interval: Some(SILENCE / 4),
            keepalive_max: 3,
            nodelay: true,
            ..client::Config::default()
        };
        if let HostKeys::Known(known) = &self.host_keys {
            let algorithms = known.algorithms(&self.host, self.port);
            if algorithms.is_empty() {
                return Err(GitError::Authentication(format!(
                    "known_hosts of the Secret has no line for {}",
                    self.place()
                )));
            }
            config.preferred.key = Cow::Owned(algorithms);
        }
        let watch = Watch {
            host_keys: self.host_keys.clone(),
            host: self.host.clone(),
            port: self.port,
        };
        let (stream, leash) = Leashed::new(stream);
        let mut handle = client::connect_stream(Arc::new(config), stream, watch)
            .await
            .map_err(|error| match error {
                russh::Error::UnknownKey => GitError::Authentication(format!(
                    "the host key of {} is not the one in known_hosts of the Secret",
                    self.place()
                )),
                russh::Error::NoCommonAlgo { .. } => GitError::Authentication(format!(
                    "{} shows no host key of a kind that known_hosts of the Secret lists",
                    self.place()
                )),
                other => broken(&other),
            })?;
        let hash = handle
            .best_supported_rsa_hash()
            .await
            .map_err(|error| broken(&error))?
            .flatten();
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&self.key), hash);
        match handle
            .authenticate_publickey(&self.user, key)
            .await
            .map_err(|error| broken(&error))?
        {
            AuthResult::Success => Ok(SshConnection {
                handle,
                path: self.path.clone(),
                _leash: leash,
            }),
            // A server that refuses says what else it would take; silence is a broken connection.
            AuthResult::Failure {
                remaining_methods, ..
            } if remaining_methods.is_empty() => Err(GitError::Transport(format!(
                "ssh: {} closed the connection during login",
                self.place()
            ))),
            AuthResult::Failure { .. } => Err(GitError::Authentication(format!(
                "{} does not accept the SSH key of the Secret for user {:?}",
                self.place(),
                self.user
            ))),
        }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl SshConnection {
    /// Starts a service and returns what it says.
    pub(super) async fn open(
        &self,
        service: Service,
        allowance: Allowance,
    ) -> Result<(PktReader, Line), GitError> {
        let channel = self
            .handle
            .channel_open_session()
            .await
            .map_err(|error| broken(&error))?;
        let (read, write) = channel.split();
        let command = format!("{} {}", service.name(), quoted(&self.path));
        write
            .exec(true, command)
            .await
            .map_err(|error| broken(&error))?;
        let source = ChannelSource {
            channel: read,
            remarks: String::new(),
            failed: false,
        };
        let reader = PktReader::new(source, allowance);
        Ok((reader, Line::Ssh(SshLine(write))))
    }
}

/// The way to a service that was started.
pub(in crate::git) struct SshLine(ChannelWriteHalf<Msg>);

impl SshLine {
    pub(super) async fn send(&self, bytes: Bytes) -> Result<(), GitError> {
        self.0
            .data_bytes(bytes)
            .await
            .map_err(|error| broken(&error))
    }

    pub(super) async fn finish(&self) {
        // Whoever hangs up without a word only fills the server's log.
        let _ = self.0.eof().await;
    }
}

struct ChannelSource {
    channel: ChannelReadHalf,
    remarks: String,
    failed: bool,
}

#[async_trait]
impl Source for ChannelSource {
    async fn chunk(&mut self) -> Result<Option<Bytes>, GitError> {
        loop {
            match self.channel.wait().await {
                Some(ChannelMsg::Data { data }) => return Ok(Some(data)),
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    if self.remarks.len() < 4 * MOST_WORDS {
                        self.remarks.push_str(&String::from_utf8_lossy(&data));
                    }
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => self.failed |= exit_status != 0,
                Some(ChannelMsg::ExitSignal { .. } | ChannelMsg::Failure) => self.failed = true,
                Some(ChannelMsg::Close) | None => {
                    return if self.failed && !self.remarks.is_empty() {
                        Err(complaint(&self.remarks))
                    } else {
                        Ok(None)
                    };
                }
                Some(_) => {}
            }
        }
    }
}

/// Looks at the server's key.
pub(in crate::git) struct Watch {
    host_keys: HostKeys,
    host: String,
    port: u16,
}

impl client::Handler for Watch {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        Ok(match (&self.host_keys, shown) {
            (HostKeys::Any, _) => true,
            (HostKeys::Known(known), PublicKeyOrCertificate::PublicKey { key, .. }) => {
                known.trusts(&self.host, self.port, key)
            }
            (HostKeys::Known(_), PublicKeyOrCertificate::Certificate(_)) => false,
        })
    }
}

fn broken(error: &russh::Error) -> GitError {
    GitError::Transport(format!("ssh: {}", words(&error.to_string())))
}

/// The path for the server's shell.
fn quoted(path: &str) -> String {
    // A leading tilde is the server's to expand, so it stays outside of the quotes.
    let (home, rest) = match path.strip_prefix('~') {
        Some(_) => {
            let end = path.find('/').unwrap_or(path.len());
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '~' | '_' | '-' | '.');
            if path[..end].chars().all(plain) {
                path.split_at(end)
            } else {
                ("", path)
            }
        }
        None => ("", path),
    };
    format!("{home}'{}'", rest.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell() {
        for (path, expected) in [
            ("/o/r.git", "'/o/r.git'"),
            ("o/r.git", "'o/r.git'"),
            ("/a'; id; '", r"'/a'\''; id; '\'''"),
            ("~bot/r.git", "~bot'/r.git'"),
            ("~$(id)/r", "'~$(id)/r'"),
        ] {
            assert_eq!(quoted(path), expected);
        }
    }

    #[test]
    fn keys_that_cannot_be_used_are_explained_without_showing_them() {
        let error = private_key(&SecretText::from("-----BEGIN nonsense hunter2")).unwrap_err();
        assert!(error.to_string().contains("PKCS#8"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
