//! `kollect rbac`: what it prints is enough, and no rule of it is too many.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::audit::Request;
use serde_json::{Value, json};

use crate::{
    rendered::arguments,
    rights::values,
    stage::{Stage, objects},
};

/// What `kollect rbac` prints for manifests.
pub(crate) fn print(stage: &Stage, manifests: &[Value], args: &[&str]) -> Result<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
    let file = stage
        .directory
        .write_private("manifests.json", list.to_string())?;
    run(&[&["--config", &file.to_string_lossy()], args].concat())
}

fn run(args: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kollect"))
        .arg("rbac")
        .args(args)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kollect rbac {args:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// A request as RBAC sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    verb: String,
    group: String,
    /// With the subresource.
    resource: String,
    namespace: String,
    name: String,
}

impl Asked {
    /// What a request asks for, if it is about a resource.
    fn of(request: &Request) -> Option<Self> {
        let (path, query) = request.uri.split_once('?').unwrap_or((&request.uri, ""));
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        parts.next()?;
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        if rest.len() > 2 && rest[0] == "namespaces" && rest[2] != "status" {
            namespace = rest[1];
            rest.drain(..2);
        }
        let (resource, name, sub) = match rest[..] {
            [resource] => (resource, "", ""),
            [resource, name] => (resource, name, ""),
            [resource, name, sub, ..] => (resource, name, sub),
            [] => return None,
        };
        // A list of one name is asked for by a field.
        let name = query
            .split('&')
            .find_map(|field| field.strip_prefix("fieldSelector=metadata.name%3D"))
            .unwrap_or(name);
        let resource = match sub {
            "" => resource.to_owned(),
            sub => format!("{resource}/{sub}"),
        };
        Some(Self {
            verb: request.verb.clone(),
            group: group.to_owned(),
            // A namespace is authorised as if it were in itself.
            namespace: if resource == "namespaces" {
                name
            } else {
                namespace
            }
            .to_owned(),
            resource,
            name: name.to_owned(),
        })
    }
}

/// A rule of a role, and where it holds.
#[derive(Debug)]
struct Granted {
    /// `None` in the whole cluster.
    namespace: Option<String>,
    rule: Value,
}

impl Granted {
    fn all(roles: &[Value]) -> Vec<Self> {
        let roles = roles
            .iter()
            .filter(|one| one["kind"] == "Role" || one["kind"] == "ClusterRole");
        roles
            .flat_map(|role| {
                let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
                let rules = role["rules"].as_array().cloned().unwrap_or_default();
                rules.into_iter().map(move |rule| Self {
                    namespace: namespace.clone(),
                    rule,
                })
            })
            .collect()
    }

    fn allows(&self, asked: &Asked) -> bool {
        let has = |field: &str, text: &str| {
            let list = self.rule[field].as_array();
            list.is_some_and(|list| list.iter().any(|one| one == text))
        };
        self.namespace
            .as_ref()
            .is_none_or(|place| *place == asked.namespace)
            && has("apiGroups", &asked.group)
            && has("resources", &asked.resource)
            && has("verbs", &asked.verb)
            && (self.rule["resourceNames"].is_null() || has("resourceNames", &asked.name))
    }
}

/// The samples, collected by an operator that has what is printed for them and nothing else.
pub(crate) fn samples(stage: &Stage) -> Result<()> {
    const HOME: &str = "kollect-system";
    let cluster = stage.cluster();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples");
    let files = ["10-team.yaml", "20-platform.yaml", "30-helm-releases.yaml"]
        .map(|name| directory.join(name).display().to_string());
    let files: Vec<&str> = files
        .iter()
        .flat_map(|file| ["-f", file.as_str()])
        .collect();
    cluster.kubectl(&["create", "serviceaccount", "printed", "-n", HOME])?;
    let account = format!("--service-account={HOME}/printed");
    let roles = run(&[&files[..], &[&account, "--name=samples"]].concat())?;
    cluster.apply(&roles)?;
    let user = stage.user(HOME, "printed")?;
    stage.await_right(&user, None, ("list", "kollect.dev", "kollecttargets"))?;
    stage.await_right(&user, Some("team-a"), ("list", "", "services"))?;
    cluster.kubectl(&[&["apply"], &files[..]].concat())?;
    // A request by annotation, and a test whose time is over at once.
    let ask = [
        "annotate",
        "kollectdatabasesink",
        "warehouse",
        "-n",
        "team-a",
    ];
    cluster.kubectl(&[&ask[..], &["kollect.dev/test-connection=true"]].concat())?;
    let patch = r#"{"spec":{"ttlSecondsAfterFinished":0}}"#;
    let test = [
        "patch",
        "kollectconnectiontest",
        "probe-warehouse",
        "-n",
        "team-a",
    ];
    cluster.kubectl(&[&test[..], &["--type=merge", "-p", patch]].concat())?;
    let deploy = [
        "create",
        "deployment",
        "api",
        "--image=registry.example/api:1",
        "-n",
        "team-a",
    ];
    cluster.kubectl(&deploy)?;

    let audit = stage.audit()?;
    let begun = audit.now()?;
    let rendered = stage.render(HOME, "samples", &values(&json!({}))?)?;
    let mut operator = stage.operator(HOME, &user, &arguments(&rendered)?)?;
    operator.eventually("targets that collect", || {
        let get = |args: &[&str]| -> Result<Value> {
            Ok(serde_json::from_str(
                &cluster.kubectl(&[&["get", "-o=json"], args].concat())?,
            )?)
        };
        for list in [
            get(&["kollecttargets", "-A"])?,
            get(&["kollectclustertargets"])?,
        ] {
            let items = list["items"].as_array().context("items")?;
            ensure!(!items.is_empty(), "no targets");
            for target in items {
                let conditions = target["status"]["conditions"].as_array().cloned();
                let conditions = conditions.unwrap_or_default();
                let ready = conditions
                    .iter()
                    .any(|one| one["type"] == "Ready" && one["status"] == "True");
                ensure!(ready, "{}: {conditions:?}", target["metadata"]["name"]);
            }
        }
        Ok(())
    })?;
    operator.eventually("a test that is gone", || {
        let left =
            cluster.kubectl(&["get", "kollectconnectiontests", "-n", "team-a", "-o=name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })?;
    // Inventories wait for sinks that nobody has; only their own word is wanted.
    let granted = Granted::all(&objects(&roles)?);
    ensure!(granted.len() > 8, "{granted:#?}");
    let user_name = user.name.clone();
    let unused = |requests: &[Request]| -> Vec<String> {
        let asked: BTreeSet<Asked> = requests
            .iter()
            .filter(|request| request.code < 400 || request.code == 404)
            .filter_map(Asked::of)
            .collect();
        let only = |rule: &Granted| {
            asked.iter().any(|one| {
                rule.allows(one) && granted.iter().filter(|other| other.allows(one)).count() == 1
            })
        };
        let unused = granted.iter().filter(|rule| !only(rule));
        unused
            .map(|rule| format!("{:?} {}", rule.namespace, rule.rule))
            .collect()
    };
    operator.eventually("every rule in use", || {
        let requests = audit.of(&user_name, begun)?;
        let unused = unused(&requests);
        ensure!(
            unused.is_empty(),
            "without these everything would go on: {unused:#?}"
        );
        Ok(())
    })?;
    // Secrets may be tried to be followed before they are asked for.
    let tried = |request: &Request| request.verb == "list" && request.uri.contains("/secrets?");
    let denied: Vec<Request> = audit
        .of(&user.name, begun)?
        .into_iter()
        .filter(|request| request.code == 403 && !tried(request))
        .collect();
    ensure!(denied.is_empty(), "not enough: {denied:#?}");
    // Without an operator their finalizers would hold them.
    let kinds = "kollectclusterinventories,kollectclustertargets";
    cluster.kubectl(&["delete", kinds, "--all", "--timeout=60s", "--wait=false"])?;
    operator.terminate()
}

#[test]
fn manifests_may_come_from_standard_input() -> Result<()> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples/10-team.yaml");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kollect"))
        .args([
            "rbac",
            "--config",
            "-",
            "--tenant-mode",
            "--watch-namespaces=team-a",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("standard input")?;
    stdin.write_all(&std::fs::read(sample)?)?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(output.status.success());
    let roles = objects(&String::from_utf8(output.stdout)?)?;
    ensure!(roles.iter().all(|one| one["kind"] == "Role"), "{roles:#?}");
    ensure!(
        roles
            .iter()
            .all(|one| one["metadata"]["namespace"] == "team-a"),
        "{roles:#?}"
    );
    Ok(())
}
