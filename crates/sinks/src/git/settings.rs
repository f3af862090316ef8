//! What a sink's description and its Secret say about a repository.

use kollect_api::sink::{
    SinkSpec, SinkType,
    snapshot::{Git, GitAuthType, KollectSnapshotSinkSpec, MergeRequestMode},
};

use super::{
    address::{self, Address, Endpoint},
    error::GitError,
    message::{Author, Templates},
    signature::Signer,
    transport::{Basic, HostKeys, HttpTransport, KnownHosts, SshTransport, Transport, private_key},
};
use crate::{
    backend::Environment,
    credentials::Materials,
    http::HttpClient,
    secret::{SecretData, SecretText},
    tls::Trust,
};

/// How a sink uses its repository.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) kind: SinkType,
    pub(super) remote: Remote,
    /// Names the repository in texts and in the mirror's key; holds no credentials.
    pub(super) url: String,
    pub(super) branch: String,
    pub(super) depth: u32,
    pub(super) templates: Templates,
    pub(super) author: Author,
    pub(super) signer: Option<Signer>,
    pub(super) on_delete: OnDelete,
}

/// Where the repository is.
#[derive(Debug)]
pub(super) enum Remote {
    /// On a server.
    Server(Transport),
    /// On this machine.
    Local(std::path::PathBuf),
}

/// What happens to files of an inventory that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDelete {
    /// They stay, as a record of what was, and belong to nobody.
    Retain,
    /// They go.
    Prune,
}

/// Reads the settings; no I/O.
pub(super) fn settings(
    spec: &SinkSpec,
    materials: &Materials,
    environment: &Environment,
) -> Result<Settings, GitError> {
    let SinkSpec::Snapshot(snapshot) = spec else {
        return wrong("only a KollectSnapshotSink can be of type git");
    };
    let kind = spec.sink_type();
    let git = snapshot.git.clone().unwrap_or_default();
    let endpoint = Endpoint::parse(snapshot.common.endpoint.as_deref().unwrap_or_default())?;
    if kind == SinkType::Gitlab {
        check_gitlab(snapshot, &endpoint)?;
    }
    let branch = address::branch(git.branch.as_deref(), &endpoint)?;
    let url = endpoint.address.url();
    Ok(Settings {
        kind,
        remote: remote(spec, &git, endpoint.address, materials, environment)?,
        url,
        branch,
        depth: git
            .clone_depth
            .map_or(1, |depth| u32::try_from(depth).unwrap_or(1).max(1)),
        templates: Templates::of(&git)?,
        author: Author::of(&git)?,
        signer: match materials
            .credentials
            .text("signing-key")
            .filter(|key| !key.is_blank())
        {
            Some(key) => Some(Signer::new(private_key(&key)?)),
            None => None,
        },
        on_delete: on_delete(snapshot)?,
    })
}

/// The repository and the branch that a sink writes to, if it is a Git sink that can be understood.
pub(super) fn place(spec: &SinkSpec) -> Option<(String, String)> {
    let SinkSpec::Snapshot(snapshot) = spec else {
        return None;
    };
    if !matches!(spec.sink_type(), SinkType::Git | SinkType::Gitlab) {
        return None;
    }
    let endpoint = Endpoint::parse(snapshot.common.endpoint.as_deref()?).ok()?;
    let git = snapshot.git.as_ref();
    let branch = git.and_then(|git| git.branch.as_deref());
    let branch = address::branch(branch, &endpoint).ok()?;
    Some((endpoint.address.url(), branch))
}

fn check_gitlab(spec: &KollectSnapshotSinkSpec, endpoint: &Endpoint) -> Result<(), GitError> {
    if !matches!(endpoint.address, Address::Http { .. } | Address::File(_)) {
        return wrong("spec.endpoint of a gitlab sink must be an http or https URL");
    }
    let request = spec
        .gitlab
        .as_ref()
        .and_then(|gitlab| gitlab.merge_request.as_ref());
    if request.is_some_and(|request| request.mode == Some(MergeRequestMode::MergeRequest)) {
        return wrong(
            "gitlab.mergeRequest.mode merge_request is not supported yet; use direct, or type git",
        );
    }
    Ok(())
}

fn on_delete(spec: &KollectSnapshotSinkSpec) -> Result<OnDelete, GitError> {
    match spec
        .common
        .options
        .get("onInventoryDelete")
        .map(|text| text.trim())
    {
        None | Some("" | "retain") => Ok(OnDelete::Retain),
        Some("prune") => Ok(OnDelete::Prune),
        Some(_) => wrong("options.onInventoryDelete must be retain or prune"),
    }
}

fn remote(
    spec: &SinkSpec,
    git: &Git,
    address: Address,
    materials: &Materials,
    environment: &Environment,
) -> Result<Remote, GitError> {
    let asked = git.auth.as_ref().and_then(|auth| auth.type_);
    let secret = &materials.credentials;
    match (address, asked) {
        (Address::File(path), _) if environment.local_repositories => Ok(Remote::Local(path)),
        (Address::File(_), _) => wrong("file:// endpoints are not allowed here; use https or ssh"),
        (Address::Http { .. }, Some(GitAuthType::Ssh)) => {
            wrong("git.auth.type ssh needs an ssh:// endpoint")
        }
        (Address::Ssh { .. }, Some(GitAuthType::Token)) => {
            wrong("git.auth.type token needs an https:// endpoint")
        }
        (address @ Address::Http { .. }, _) => {
            let trust = Trust::of(spec, materials);
            Ok(Remote::Server(Transport::Http(HttpTransport {
                client: HttpClient::new(environment.dialer.clone(), &trust)?,
                url: address.url(),
                authorization: match basic(secret) {
                    Some(basic) => Some(basic.header()?),
                    None => None,
                },
            })))
        }
        (
            Address::Ssh {
                user,
                host,
                port,
                path,
            },
            _,
        ) => Ok(Remote::Server(Transport::Ssh(SshTransport {
            dialer: environment.dialer.clone(),
            user: trimmed(secret, "username")
                .map(|name| name.expose().to_owned())
                .or(user)
                .unwrap_or_else(|| "git".to_owned()),
            host,
            port: port.unwrap_or(22),
            path,
            key: ssh_key(secret)?,
            host_keys: host_keys(spec, secret)?,
        }))),
    }
}

/// User and password for HTTP: a token wins over a password, and hosts that take tokens do not care
/// for the user's name as long as there is one.
fn basic(secret: &SecretData) -> Option<Basic> {
    let user = trimmed(secret, "username").map(|name| name.expose().to_owned());
    let (default, password) = match (trimmed(secret, "token"), trimmed(secret, "password")) {
        (Some(token), _) => ("x-access-token", token),
        (None, Some(password)) => ("git", password),
        (None, None) => return None,
    };
    Some(Basic {
        user: user.unwrap_or_else(|| default.to_owned()),
        password,
    })
}

fn ssh_key(secret: &SecretData) -> Result<std::sync::Arc<russh::keys::PrivateKey>, GitError> {
    let text = ["ssh-privatekey", "identity", "id_rsa"]
        .into_iter()
        .find_map(|key| secret.text(key).filter(|text| !text.is_blank()));
    match text {
        Some(text) => private_key(&text),
        None => wrong(
            "an ssh:// endpoint needs a private key in the Secret, under ssh-privatekey, identity \
             or id_rsa",
        ),
    }
}

fn host_keys(spec: &SinkSpec, secret: &SecretData) -> Result<HostKeys, GitError> {
    let insecure = spec
        .common()
        .tls
        .as_ref()
        .is_some_and(|tls| tls.insecure_skip_verify);
    match secret.text("known_hosts").filter(|text| !text.is_blank()) {
        _ if insecure => Ok(HostKeys::Any),
        Some(text) => KnownHosts::parse(text.expose()).map(HostKeys::Known),
        None => wrong(
            "an ssh:// endpoint needs known_hosts in the Secret, as ssh-keyscan prints it; without \
             it nobody can tell the server from an impostor",
        ),
    }
}

/// A value without blanks around it: Secrets made by hand tend to end in a line break.
fn trimmed(secret: &SecretData, key: &str) -> Option<SecretText> {
    secret
        .text(key)
        .map(|text| text.trimmed())
        .filter(|text| !text.is_blank())
}

fn wrong<T>(text: impl Into<String>) -> Result<T, GitError> {
    Err(GitError::Configuration(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Secret, and the user and password that come of it.
    type Case = (
        &'static [(&'static str, &'static str)],
        Option<(&'static str, &'static str)>,
    );

    #[test]
    fn s04_s05_s06_who_logs_in_over_http() {
        let cases: [Case; 5] = [
            (&[("token", "tok")], Some(("x-access-token", "tok"))),
            (&[("password", "p")], Some(("git", "p"))),
            (
                &[("username", "bot"), ("token", "t"), ("password", "p")],
                Some(("bot", "t")),
            ),
            (
                &[("username", "bot"), ("password", "p\n")],
                Some(("bot", "p")),
            ),
            (&[("username", "bot")], None),
        ];
        for (secret, expected) in cases {
            let secret: SecretData = secret
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            let login = basic(&secret);
            let login = login
                .as_ref()
                .map(|login| (login.user.as_str(), login.password.expose()));
            assert_eq!(login, expected);
        }
    }
}
