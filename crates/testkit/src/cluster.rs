//! A running Kubernetes API as a test sees it: users, namespaces, manifests.
//!
//! All tests of a run share one control plane and keep out of each other's way by namespace.
//! [`Cluster::shared`] finds it: the task runner announces its own through [`ENV`], and a test
//! binary that is run alone starts one that ends with the process.

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, kubeconfig};
use crate::http;
use crate::names::unique;
use crate::wait::eventually;

/// Environment variable that names the file describing the cluster of this run.
pub const ENV: &str = "KOLLECT_TEST_CLUSTER";

/// How to reach a cluster. Cheap to clone; owns no process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cluster {
    pub(crate) port: u16,
    pub(crate) ca_pem: String,
    pub(crate) admin: User,
    pub(crate) restricted: User,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) controllers: bool,
}

/// Somebody who may talk to the API server.
#[derive(Clone, Serialize, Deserialize)]
pub struct User {
    /// The name that role bindings and access reviews use.
    pub name: String,
    /// The bearer token.
    pub token: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// The cluster of this test run.
    pub fn shared() -> Result<&'static Self> {
        // The control plane is owned here so that it lives until the process ends.
        static SHARED: LazyLock<Result<(Cluster, Option<ControlPlane>), String>> =
            LazyLock::new(|| {
                let shared = match std::env::var_os(ENV) {
                    Some(file) => Cluster::read(Path::new(&file)).map(|cluster| (cluster, None)),
                    None => {
                        ControlPlane::start().map(|owned| (owned.cluster().clone(), Some(owned)))
                    }
                };
                shared.map_err(|error| format!("{error:#}"))
            });
        SHARED
            .as_ref()
            .map(|(cluster, _)| cluster)
            .map_err(|message| anyhow!("{message}"))
    }

    fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file)
            .with_context(|| format!("cannot read {} named by {ENV}", file.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} does not describe a cluster", file.display()))
    }

    /// `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The authority that signed the API server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// May do everything.
    pub fn admin(&self) -> &User {
        &self.admin
    }

    /// May do nothing until [`grant`](Self::grant)ed something.
    pub fn restricted(&self) -> &User {
        &self.restricted
    }

    /// A kubeconfig file with the contexts `admin` (current) and `restricted`.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The text of a kubeconfig file for `user` alone.
    pub fn kubeconfig_of(&self, user: &User) -> String {
        kubeconfig(self, &[user])
    }

    /// Plain requests as `user`.
    pub fn api(&self, user: &User) -> Result<http::Client> {
        Ok(http::Client::tls(self.port, &self.ca_pem)?.bearer(&user.token))
    }

    /// Creates a namespace for one test and returns its name, which starts with `prefix`.
    ///
    /// Where controllers run, the namespace already has its default service account, so that
    /// Pods can be created in it.
    pub fn create_namespace(&self, prefix: &str) -> Result<String> {
        let name = unique(prefix);
        let api = self.api(&self.admin)?;
        api.post(
            "/api/v1/namespaces",
            &json!({ "metadata": { "name": name } }),
        )?;
        if self.controllers {
            let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
            eventually("the default service account", || {
                api.get(&account).map(|_| ())
            })?;
        }
        Ok(name)
    }

    /// Creates a service account and returns it with a token from the TokenRequest API.
    pub fn create_service_account(&self, namespace: &str, name: &str) -> Result<User> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.api(&self.admin)?
            .post(&path, &json!({ "metadata": { "name": name } }))?;
        let token = self.request_token(namespace, name, &[])?;
        Ok(User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            token,
        })
    }

    /// Asks for a token of a service account; without audiences it is for the API server.
    pub fn request_token(&self, namespace: &str, name: &str, audiences: &[&str]) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({ "spec": { "audiences": audiences, "expirationSeconds": 3600 } });
        let answer = self.api(&self.admin)?.post(&path, &request)?;
        let token = answer["status"]["token"].as_str();
        Ok(token
            .context("the token request has no token in its answer")?
            .to_owned())
    }

    /// Whom a token belongs to, by TokenReview; `None` when the API server does not accept it.
    pub fn review_token(&self, token: &str) -> Result<Option<String>> {
        let review = json!({ "spec": { "token": token } });
        let answer = self
            .api(&self.admin)?
            .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)?;
        let status = &answer["status"];
        let accepted = status["authenticated"] == Value::Bool(true);
        Ok(status["user"]["username"]
            .as_str()
            .filter(|_| accepted)
            .map(str::to_owned))
    }

    /// Runs kubectl as the administrator and returns its standard output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run_kubectl(args, "")
    }

    /// Applies manifests given as text.
    pub fn apply(&self, yaml: &str) -> Result<String> {
        self.run_kubectl(&["apply", "--server-side", "-f", "-"], yaml)
    }

    /// Applies CustomResourceDefinitions and waits until their kinds are served.
    pub fn define(&self, definitions: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let mut yaml = String::new();
        for definition in definitions {
            yaml.push_str("---\n");
            yaml.push_str(definition.as_ref());
        }
        self.apply(&yaml)?;
        let established = ["wait", "--for=condition=Established", "--timeout=60s"];
        self.run_kubectl(&[&established[..], &["-f", "-"]].concat(), &yaml)?;
        Ok(())
    }

    /// A kubectl command that is set up for this cluster, to run with other output.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        // kubectl remembers by host and port what a server serves; ports come again.
        let cache = self.kubeconfig.with_file_name("kubectl-cache");
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(cache);
        command
    }

    fn run_kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = self
            .kubectl_command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.kubectl.display()))?;
        // kubectl reads all its input before it prints, so writing first cannot block forever.
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {} failed: {}", args.join(" "), stderr.trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(feature = "client")]
impl Cluster {
    /// Configuration of a kube client for `user`.
    pub fn kube_config(&self, user: &User) -> Result<kube::Config> {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;

        let ca = CertificateDer::from_pem_slice(self.ca_pem.as_bytes())?;
        let mut config = kube::Config::new(self.url().parse()?);
        config.root_cert = Some(vec![ca.to_vec()]);
        let token = serde_json::from_value(json!({ "token": user.token }))?;
        config.auth_info = token;
        Ok(config)
    }

    /// A kube client for `user`. Needs a running Tokio runtime.
    pub fn client(&self, user: &User) -> Result<kube::Client> {
        // Another provider may have been chosen already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(kube::Client::try_from(self.kube_config(user)?)?)
    }
}
