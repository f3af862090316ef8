//! The commands of docs/tenancy.md are run, and print what it shows; its Role is the one of the table.

use std::{env, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kollect_operator::rights::{self, Account, collected};
use kollect_testkit::{cluster::User, postgres::Tls};

use crate::{
    shown::{self, Shown, commands},
    stage::{Operator, SOON, Stage, eventually},
};

const DOCUMENT: &str = "docs/tenancy.md";
const TEAM: Account<'_> = Account {
    namespace: "team-a",
    name: "kollect",
};

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The roles of the example are what the table says, word for word.
#[test]
fn the_role_of_the_example_is_the_printed_one() -> Result<()> {
    let text = std::fs::read_to_string(repository().join("examples/tenancy/role.yaml"))?;
    let mut documents = text.split("\n---\n").skip(1);
    let role: Role = serde_saphyr::from_str(documents.next().context("a Role")?)?;
    let binding: RoleBinding = serde_saphyr::from_str(documents.next().context("a RoleBinding")?)?;
    let deployments = [collected("apps", &["deployments"])];
    let expected = rights::tenant_role("kollect", TEAM.namespace, TEAM, &deployments);
    ensure!(role == expected, "{role:#?}\n{expected:#?}");
    let expected = rights::role_binding("kollect", TEAM.namespace, TEAM);
    // The group of a ServiceAccount is the empty one, which manifests leave out.
    ensure!(binding == expected, "{binding:#?}\n{expected:#?}");
    Ok(())
}

/// The operator of the example, as the account that its commands made.
fn operator(stage: &Stage) -> Result<Operator> {
    let cluster = stage.cluster();
    let user = User {
        name: "system:serviceaccount:team-a:kollect".to_owned(),
        token: cluster.request_token(TEAM.namespace, TEAM.name, &[])?,
    };
    stage.await_right(TEAM.namespace, &user, "kollecttargets")?;
    let flags = [
        "--tenant-mode",
        "--watch-namespaces=team-a",
        "--leader-elect",
    ];
    stage.operator("documents", &user, &flags.map(str::to_owned))
}

pub(crate) fn play(stage: &Stage) -> Result<()> {
    let cluster = stage.cluster();
    let text = std::fs::read_to_string(repository().join(DOCUMENT))?;
    let all = commands(&text);
    ensure!(all.len() > 10, "{DOCUMENT} shows commands");
    let kubectl = cluster.kubectl_command().get_program().to_owned();
    let programs = [
        Path::new(env!("CARGO_BIN_EXE_kollect")),
        Path::new(&kubectl),
    ];
    let mut path: Vec<_> = programs
        .iter()
        .filter_map(|program| program.parent().map(Path::to_owned))
        .collect();
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(path)?;
    let mut running = None;
    for Shown { command, output } in all {
        if command.contains(" wait ") && running.is_none() {
            running = Some(operator(stage)?);
        }
        let ran = Command::new("bash")
            .args(["-c", &command])
            .current_dir(repository())
            .env("HOME", stage.run.path())
            .env("PATH", &path)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("DSN", stage.database.url(Tls::Off))
            .output()?;
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let stderr = String::from_utf8_lossy(&ran.stderr);
        let log = running.as_ref().map(Operator::log).unwrap_or_default();
        ensure!(
            ran.status.success(),
            "{DOCUMENT}: {command}: {:?}\n{stdout}{stderr}\n{log}",
            ran.status
        );
        shown::expect(DOCUMENT, &command, &output, &stdout)?;
    }
    let mut running = running.context("the operator of the example")?;
    eventually("the table of the example", SOON, || {
        stage
            .database
            .psql("SELECT count(*) FROM team_a_items")
            .map(|_| ())
    })?;
    for plural in ["kollectinventories", "kollecttargets"] {
        stage.empty(TEAM.namespace, plural)?;
    }
    running.stop()
}
