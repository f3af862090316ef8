//! The operator without the right to read one thing at a time: it asks less and less often, says
//! what is missing once a minute at most, and writes nothing in vain.
//!
//! One operator sees all namespaced kinds: each namespace that it watches lacks another right. For
//! what is cluster-scoped there is one operator for each right. Those never lead, because they would
//! write the same objects.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kollect_operator::{lease, status_log::without_numbers};
use kollect_testkit::{
    RunDir, Trouble,
    postgres::Tls,
    rbac,
    trouble::{Effect, on},
};
use serde_json::json;

use crate::{
    rights::team,
    stage::{Process, Stage},
};

const NAMESPACED: [&str; 9] = [
    "kollecttargets",
    "kollectinventories",
    "kollectprofiles",
    "kollectscopes",
    "kollectsnapshotsinks",
    "kollectdatabasesinks",
    "kollecteventsinks",
    "kollectconnectiontests",
    "secrets",
];

const CLUSTER: [&str; 5] = [
    "kollectclustertargets",
    "kollectclusterscopes",
    "kollectclusterinventories",
    "namespaces",
    "customresourcedefinitions",
];

const VERBS: [&str; 2] = ["list", "watch"];

/// How long it is counted what fails.
const COUNTED: Duration = Duration::from_secs(20);

/// An operator that lacks something.
struct Lacking {
    /// What it may not do: verb and resource.
    rights: Vec<(&'static str, &'static str)>,
    trouble: Trouble,
    log: PathBuf,
    begun: Instant,
    _process: Process,
}

impl Lacking {
    /// What failed so far, by request: what was refused, and writes that failed in any way.
    fn failed(&self) -> BTreeMap<String, u64> {
        let counts = self.trouble.counts().into_iter();
        let failed = counts.filter(|count| {
            let read = matches!(&*count.request.verb, "get" | "list" | "watch");
            count.status == 403 || (count.status >= 400 && !read)
        });
        let mut all = BTreeMap::new();
        for count in failed {
            let request = count.request;
            let (verb, resource) = (request.verb, request.resource);
            let key = format!("{verb} {resource} {}/{}", request.namespace, request.name);
            *all.entry(key).or_default() += count.times;
        }
        all
    }

    /// Everything that is missing was needed, and the log says so, without saying it all the time.
    fn judge(&self) -> Result<()> {
        let (failed, log) = (self.failed(), fs::read_to_string(&self.log)?);
        for (verb, resource) in &self.rights {
            let asked = format!("{verb} {resource} ");
            ensure!(
                failed.keys().any(|request| request.starts_with(&asked)),
                "{asked}was never needed: {failed:#?}"
            );
            let called = if *resource == "secrets" {
                "the Secret "
            } else {
                resource
            };
            ensure!(log.contains(called), "no word about {resource}:\n{log}");
        }
        let minutes = self.begun.elapsed().as_secs() / 60 + 1;
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for line in log.lines() {
            // Without its time.
            let said = line.split_once(' ').map_or(line, |(_, said)| said);
            *lines.entry(without_numbers(said)).or_default() += 1;
        }
        for (line, times) in lines {
            ensure!(times <= minutes, "{times} times in {minutes} min: {line}");
        }
        Ok(())
    }
}

#[test]
fn c1_without_the_right_to_read_one_thing_nothing_spins() -> Result<()> {
    let stage = Stage::new()?;
    let run = RunDir::new("reads")?;
    let cluster = stage.plane.cluster();
    let reads = [rbac::read("", &["configmaps", "secrets"])];
    let user = cluster.account(
        &stage.namespace,
        &[rbac::OPERATOR, rbac::CLUSTER_FACTS, &reads],
    )?;
    let dsn = stage.database.url(Tls::Off);
    // Held by somebody else, for long.
    let now = format!("{:.6}", Timestamp::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": lease::NAME, "namespace": stage.namespace},
        "spec": {
            "holderIdentity": "somebody", "leaseDurationSeconds": 3_600,
            "acquireTime": now, "renewTime": now,
        },
    });
    let mut objects = vec![lease];

    let trouble = Trouble::with(cluster)?;
    let mut rights = Vec::new();
    let mut namespaces = Vec::new();
    for resource in NAMESPACED {
        for verb in VERBS {
            let namespace = format!("reads-{}", namespaces.len());
            trouble.rule(on(verb, resource).within(&namespace), Effect::Status(403));
            objects.push(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            }));
            objects.extend(team(&namespace, &dsn));
            namespaces.push(namespace);
            rights.push((verb, resource));
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    cluster.apply(&list.to_string())?;
    let start = |trouble: Trouble, rights: Vec<_>, name: &str, arguments: &[&str]| {
        let log = run.join(&format!("{name}.log"));
        let kubeconfig = trouble.kubeconfig(&user)?;
        let process = Stage::spawn(&kubeconfig, arguments, "warn", File::create(&log)?.into())?;
        anyhow::Ok(Lacking {
            rights,
            trouble,
            log,
            begun: Instant::now(),
            _process: process,
        })
    };
    let watched = format!("--watch-namespaces={}", namespaces.join(","));
    let mut operators = vec![start(trouble, rights, "namespaced", &[&watched])?];
    let elsewhere = format!("--leader-elect-namespace={}", stage.namespace);
    for resource in CLUSTER {
        for verb in VERBS {
            let trouble = Trouble::with(cluster)?;
            trouble.rule(on(verb, resource), Effect::Status(403));
            let name = format!("{resource}-{verb}");
            let arguments = ["--leader-elect", &elsewhere];
            operators.push(start(trouble, vec![(verb, resource)], &name, &arguments)?);
        }
    }

    thread::sleep(Duration::from_mins(1));
    // What is written about an object that changed unseen is outdated.
    let api = stage.api()?;
    for namespace in &namespaces {
        for object in ["kollecttargets/maps", "kollectinventories/inv"] {
            let path = format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/{object}");
            let mut touched = api.get(&path)?;
            touched["metadata"]["labels"] = json!({"touched": "yes"});
            // Somebody may have been faster.
            let _ = api.request("PUT", &path, Some(&touched))?;
        }
    }
    let before: Vec<_> = operators.iter().map(Lacking::failed).collect();
    thread::sleep(COUNTED);
    for (operator, before) in operators.iter().zip(&before) {
        for (request, times) in operator.failed() {
            let more = times - before.get(&request).unwrap_or(&0);
            ensure!(more <= 2, "{request}: {more} times in {COUNTED:?}");
        }
    }
    for operator in &operators {
        operator.judge()?;
    }
    Ok(())
}
