//! An API server, and operators that serve webhooks to it.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{LazyLock, Mutex},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{ValidatingWebhookConfiguration, WebhookClientConfig},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kollect_admission::{
    certificates::Content,
    hooks::{self, HOOKS},
};
use kollect_api::crd;
use kollect_testkit::{
    Cluster, ControlPlane, RunDir,
    cluster::User,
    control_plane::Options,
    http::{self, Response},
    names::unique,
    ports,
    wait::eventually,
};
use serde_json::{Value, json};

/// The label that leads an object to the webhooks of its case.
pub(crate) const CASE: &str = "kollect.dev/test-case";

struct Shared {
    plane: ControlPlane,
    run: RunDir,
}

fn shared() -> &'static Shared {
    static SHARED: LazyLock<Shared> = LazyLock::new(|| {
        let plane =
            ControlPlane::start_with(Options { controllers: false }).expect("an API server");
        let definitions = crd::all_yaml();
        let definitions = definitions.iter().map(|file| &file.yaml);
        plane.cluster().define(definitions).expect("our kinds");
        Shared {
            plane,
            run: RunDir::new("admission").expect("a directory"),
        }
    });
    &SHARED
}

pub(crate) fn cluster() -> &'static Cluster {
    shared().plane.cluster()
}

/// An operator that serves webhooks. Ends with the value.
pub(crate) struct Operator {
    process: Mutex<Child>,
    /// Where it serves webhooks.
    pub(crate) port: u16,
    health: u16,
    log: PathBuf,
}

impl Drop for Operator {
    fn drop(&mut self) {
        let mut process = self.process.lock().expect("no panic");
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Webhooks of one case, and how objects get there.
pub(crate) struct Case {
    /// Its namespace; Secret and lease are there too.
    pub(crate) namespace: String,
    name: String,
    api: http::Client,
}

impl Case {
    /// A case with a namespace of its own.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let cluster = cluster();
        Ok(Self {
            namespace: cluster.create_namespace(name)?,
            name: unique(name),
            api: cluster.api(cluster.admin())?,
        })
    }

    /// Starts an operator of this case, and waits until it is ready.
    pub(crate) fn start(&self, flags: &[&str]) -> Result<Operator> {
        let operator = self.spawn(flags)?;
        operator.wait()?;
        Ok(operator)
    }

    /// Starts an operator of this case.
    pub(crate) fn spawn(&self, flags: &[&str]) -> Result<Operator> {
        let (port, health) = (ports::free()?, ports::free()?);
        let name = unique(&self.name);
        let log = shared().run.join(&format!("{name}.log"));
        let file = File::create(&log)?;
        let work = shared().run.join(&name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_kollect"));
        command
            .args(["operator", "--validating-webhooks-enabled"])
            .arg("--webhook-hosts=127.0.0.1")
            .arg(format!("--webhook-bind-address=127.0.0.1:{port}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg(format!("--webhook-configuration-name={}", self.name))
            .arg(format!("--leader-elect-namespace={}", self.namespace))
            .arg(format!("--work-dir={}", work.display()))
            .args(flags)
            .arg("--kubeconfig")
            .arg(cluster().kubeconfig())
            .env("RUST_LOG", "info")
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file));
        Ok(Operator {
            process: Mutex::new(command.spawn()?),
            port,
            health,
            log,
        })
    }

    /// Registers webhooks that lead to this port; the operator says whom to trust.
    pub(crate) fn register(&self, port: u16) -> Result<()> {
        self.register_trusting(port, None)
    }

    /// The same, trusting this authority.
    pub(crate) fn register_trusting(&self, port: u16, authority: Option<&str>) -> Result<()> {
        let mut all = hooks::configuration(&self.name, |path| WebhookClientConfig {
            url: Some(format!("https://127.0.0.1:{port}{path}")),
            ca_bundle: authority.map(|pem| ByteString(pem.as_bytes().to_vec())),
            service: None,
        });
        for webhook in all.webhooks.iter_mut().flatten() {
            webhook.object_selector = Some(LabelSelector {
                match_labels: Some([(CASE.to_owned(), self.name.clone())].into()),
                match_expressions: None,
            });
        }
        // The operator writes the authority too.
        self.overwrite(&serde_json::to_value(&all)?)
    }

    /// Applies an object, whoever else wrote some of it.
    pub(crate) fn overwrite(&self, object: &Value) -> Result<()> {
        let file = self.directory()?.join("object.json");
        fs::write(&file, object.to_string())?;
        let file = file.display().to_string();
        let flags = ["apply", "--server-side", "--force-conflicts", "-f", &file];
        cluster().kubectl(&flags)?;
        Ok(())
    }

    /// The webhooks as they are registered.
    pub(crate) fn registered(&self) -> Result<ValidatingWebhookConfiguration> {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let found = self.api.get(&format!("{path}/{}", self.name))?;
        Ok(serde_json::from_value(found)?)
    }

    /// Whom the API server trusts, as PEM.
    pub(crate) fn trusted(&self) -> Result<String> {
        let registered = self.registered()?;
        let mut webhooks = registered.webhooks.into_iter().flatten();
        let bundle = webhooks
            .next()
            .and_then(|webhook| webhook.client_config.ca_bundle);
        let bundle = bundle.context("no authority yet")?;
        Ok(String::from_utf8(bundle.0)?)
    }

    /// The Secret of the certificate.
    pub(crate) fn content(&self) -> Result<Content> {
        let path = format!(
            "/api/v1/namespaces/{}/secrets/kollect-webhook-cert",
            self.namespace
        );
        let secret: k8s_openapi::api::core::v1::Secret =
            serde_json::from_value(self.api.get(&path)?)?;
        let data = secret.data.context("an empty Secret")?;
        Ok(Content::read(&data)?)
    }

    /// An operator with registered webhooks that the API server has found to be there.
    pub(crate) fn serve(&self, flags: &[&str]) -> Result<Operator> {
        let operator = self.spawn(flags)?;
        self.register(operator.port)?;
        operator.wait()?;
        eventually("webhooks that are asked", || self.is_asked())?;
        Ok(operator)
    }

    /// Fails unless the webhooks of the case refuse what only they can refuse.
    pub(crate) fn is_asked(&self) -> Result<()> {
        let bad = json!({
            "targetGVK": {"version": "v1", "kind": "Pod"},
            "attributes": [{"name": "a", "path": "cel:1 +"}],
        });
        let answer = self.try_out("POST", &self.object("KollectProfile", "asked", &bad))?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == 403 && text.contains("cel:1 +"), "{text}");
        Ok(())
    }

    /// An object of the case.
    pub(crate) fn object(&self, kind: &str, name: &str, spec: &Value) -> Value {
        let mut metadata = json!({"name": name});
        if !kind.starts_with("KollectCluster") {
            metadata["namespace"] = self.namespace.as_str().into();
        }
        let mut object = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
        });
        self.label(&mut object);
        object
    }

    /// Makes an object one of the case.
    pub(crate) fn label(&self, object: &mut Value) {
        object["metadata"]["labels"][CASE] = self.name.as_str().into();
    }

    /// Sends an object without storing it, as the administrator.
    pub(crate) fn try_out(&self, method: &str, object: &Value) -> Result<Response> {
        self.api
            .request(method, &path(object, method, true), Some(object))
    }

    /// The same as somebody else.
    pub(crate) fn try_out_as(user: &User, object: &Value) -> Result<Response> {
        let api = cluster().api(user)?;
        api.request("POST", &path(object, "POST", true), Some(object))
    }

    /// Sends an object and stores it, as the administrator.
    pub(crate) fn send(&self, method: &str, object: &Value) -> Result<Response> {
        self.api
            .request(method, &path(object, method, false), Some(object))
    }

    /// Reads an object.
    pub(crate) fn get(&self, object: &Value) -> Result<Value> {
        self.api.get(&path(object, "GET", false))
    }

    /// A directory for files of the case.
    pub(crate) fn directory(&self) -> Result<PathBuf> {
        let directory = shared().run.join(&format!("{}-files", self.name));
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }
}

/// Where the API server has an object.
fn path(object: &Value, method: &str, dry_run: bool) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let hook = HOOKS.iter().find(|hook| hook.kind == text("/kind"));
    let hook = hook.expect("one of our kinds");
    let mut path = String::from("/apis/kollect.dev/v1alpha1/");
    if hook.namespaced {
        path.push_str(&format!("namespaces/{}/", text("/metadata/namespace")));
    }
    path.push_str(hook.plural);
    if method != "POST" {
        path.push_str(&format!("/{}", text("/metadata/name")));
    }
    path.push_str("?fieldManager=test&fieldValidation=Strict");
    if dry_run {
        path.push_str("&dryRun=All");
    }
    path
}

impl Operator {
    /// Waits until it is ready.
    pub(crate) fn wait(&self) -> Result<()> {
        let health = http::Client::plain(self.health);
        let ready = eventually("a ready operator", || {
            let answer = health.request("GET", "/readyz", None)?;
            let text = String::from_utf8_lossy(&answer.body);
            ensure!(answer.status == 200, "{text}");
            Ok(())
        });
        ready.with_context(|| self.log())
    }

    /// What it said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A client that trusts only this authority.
    pub(crate) fn client(&self, authority: &str) -> Result<http::Client> {
        http::Client::tls(self.port, authority)
    }
}
