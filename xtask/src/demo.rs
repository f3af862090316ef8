//! `cargo xtask demo`: a real Kubernetes API that serves Kollect's kinds, to look at and to play
//! with.

mod lake;
mod release;

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kollect_testkit::git::Repository;
use kollect_testkit::nats::Admission;
use kollect_testkit::postgres::{Database, Tls};
use kollect_testkit::progress::{human, say};
use kollect_testkit::wait::eventually;
use kollect_testkit::{Cluster, ControlPlane, GitServer, Nats, Postgres, S3};

use crate::workspace;

const INTRODUCTION: &str = "\
This starts etcd, kube-apiserver, kube-controller-manager, PostgreSQL, NATS, S3 and a Git server on loopback, installs
Kollect's chart with Helm, applies the samples and runs the operator with the arguments and rights that the chart gives it. It
takes less than a minute; the first time on a machine the servers are compiled before, about 9 minutes on two cores.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Show everything and end, instead of waiting for Ctrl-C.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("{INTRODUCTION}");
    let started = Instant::now();
    let control_plane = ControlPlane::start()?;
    let cluster = control_plane.cluster();
    let elapsed = human(started.elapsed());
    say(&format!(
        "Kubernetes answers on {} after {elapsed}",
        cluster.url()
    ));

    release::install(&control_plane)?;
    apply(cluster, &workspace::root().join("deploy/samples"))?;
    show(cluster)?;
    let postgres = Postgres::start()?;
    let database = postgres.create_database("demo")?;
    let git = GitServer::start()?;
    let repository = git.create_repo("inventory")?;
    give_credentials(
        cluster,
        &database,
        &git,
        ("team-a", "audit-git", &repository),
    )?;
    let fleet = git.create_repo("fleet")?;
    let platform = ("kollect-system", "fleet-git", &fleet);
    give_credentials(cluster, &database, &git, platform)?;
    keep_history(cluster)?;
    let nats = Nats::start(&Admission::Passwords)?;
    follow_changes(cluster, &nats)?;
    let store = S3::start()?;
    let bucket = lake::fill(cluster, &store)?;
    let operator = release::operator(&control_plane)?;
    collect(cluster)?;
    deliver(cluster, &database, &repository)?;
    ask(&database)?;
    show_message(&nats)?;
    lake::query(&bucket, "registry.example/api:1.5.0")?;
    roll_up(cluster)?;

    if !arguments.once {
        invite(&control_plane, &database, &repository);
        wait_for_ctrl_c()?;
    }
    drop(operator);
    drop((postgres, git, nats, store));
    drop(control_plane);
    println!("\nThe servers are stopped and their data is removed.");
    Ok(())
}

/// Shows everything and ends.
pub(crate) fn once() -> Result<()> {
    run(&Arguments { once: true })
}

fn apply(cluster: &Cluster, dir: &Path) -> Result<()> {
    let shown = dir.strip_prefix(workspace::root()).unwrap_or(dir).display();
    ensure!(dir.is_dir(), "{shown} is missing from this checkout");
    let path = dir.to_string_lossy();
    let args = ["apply", "--server-side", "--recursive", "-f", &path];
    let applied = cluster.kubectl(&args)?;
    say(&format!(
        "{shown}: {} objects applied",
        applied.lines().count()
    ));
    Ok(())
}

/// Lets a team have some workloads, and shows how they become rows.
fn collect(cluster: &Cluster) -> Result<()> {
    for (name, image) in [
        ("api", "registry.example/api:1.4.2"),
        ("web", "registry.example/web:2.0.0"),
    ] {
        cluster.kubectl(&[
            "create",
            "deployment",
            name,
            "--image",
            image,
            "-n",
            "team-a",
        ])?;
    }
    cluster.kubectl(&[
        "create",
        "service",
        "clusterip",
        "api",
        "--tcp=80:8080",
        "-n",
        "team-a",
    ])?;
    let get = [
        "get",
        "kollecttargets",
        "deployments",
        "services",
        "-n",
        "team-a",
    ];
    let counted: &[&str] = &[
        &get[..],
        &["-o", "jsonpath={.items[*].status.collectedCount}"],
    ]
    .concat();
    eventually("rows of the team's targets", || {
        let counts = cluster.kubectl(counted)?;
        ensure!(counts == "2 1", "counted {counts:?}");
        Ok(())
    })?;
    println!(
        "\n$ kubectl {}\n{}",
        get.join(" "),
        cluster.kubectl(&get)?.trim_end()
    );
    Ok(())
}

/// The Secrets that the sinks of a namespace refer to, and the place of a sink's repository.
fn give_credentials(
    cluster: &Cluster,
    database: &Database,
    git: &GitServer,
    (namespace, sink, repository): (&str, &str, &Repository),
) -> Result<()> {
    let dsn = format!("--from-literal=dsn={}", database.url(Tls::Off));
    let create = [
        "create", "secret", "generic", "pg-dsn", &dsn, "-n", namespace,
    ];
    cluster.kubectl(&create)?;
    let user = format!("--from-literal=username={}", kollect_testkit::git::USER);
    let password = format!("--from-literal=password={}", git.password());
    let authority = format!("--from-file=ca.crt={}", git.ca_file().display());
    cluster.kubectl(&[
        "create", "secret", "generic", "git-push", &user, &password, &authority, "-n", namespace,
    ])?;
    let place = format!(
        r#"{{"spec":{{"endpoint":"{}","tls":{{"caSecretRef":{{"name":"git-push"}}}}}}}}"#,
        repository.https_url()
    );
    let patch = [
        "patch",
        "kollectsnapshotsink",
        sink,
        "-n",
        namespace,
        "--type=merge",
    ];
    let patch: &[&str] = &[&patch[..], &["-p", &place]].concat();
    cluster.kubectl(patch).map(|_| ())
}

/// Lets the team's table have a view with typed columns and a history.
fn keep_history(cluster: &Cluster) -> Result<()> {
    let more = r#"{"spec":{"options":{"historyDays":"90"},"postgres":{"history":{"table":"inventory_history"},
        "views":[{"name":"workloads","target":"deployments",
        "columns":[{"name":"image"},{"name":"replicas","type":"bigint"}]}]}}}"#;
    let sink = "kollectdatabasesink/warehouse";
    cluster.kubectl(&["patch", sink, "-n", "team-a", "--type=merge", "-p", more])?;
    Ok(())
}

/// Asks the database what people ask: typed columns, what changed, how it was, how old it is.
fn ask(database: &Database) -> Result<()> {
    for question in [
        "SELECT namespace, name, image, replicas FROM workloads ORDER BY name",
        "SELECT kind, name, operation, attributes_before->>'image' AS before, attributes->>'image' AS after \
         FROM kollect_changes WHERE operation = 'update' AND inventory_name = 'team-inventory'",
        "SELECT payload->>'name' AS name, payload->'attributes'->>'image' AS image \
         FROM kollect_as_of((SELECT max(valid_from) - interval '1 ms' FROM inventory_history)) \
         WHERE target_name = 'deployments' ORDER BY 1",
        "SELECT cluster, inventory_namespace, inventory_name, rows, healthy, now() - seen_at AS silent_for \
         FROM kollect_inventories ORDER BY 1, 2, 3",
    ] {
        let table = database.table(question)?;
        println!("\n$ psql -c \"{question}\"\n{}", table.trim_end());
    }
    say("the same database answers what changed, how it was, and how old it is");
    Ok(())
}

/// Lets the team's inventory publish its changes.
fn follow_changes(cluster: &Cluster, nats: &Nats) -> Result<()> {
    let user = format!("--from-literal=username={}", nats.user());
    let password = format!("--from-literal=password={}", nats.password());
    cluster.kubectl(&[
        "create",
        "secret",
        "generic",
        "nats-login",
        &user,
        &password,
        "-n",
        "team-a",
    ])?;
    let place = format!(
        r#"{{"spec":{{"connectionTest":true,"nats":{{"url":"nats://127.0.0.1:{}"}}}}}}"#,
        nats.port()
    );
    let reference = r#"{"spec":{"eventSinkRefs":[{"name":"changes"}]}}"#;
    for (object, patch) in [
        ("kollecteventsink/changes", place.as_str()),
        ("kollectinventory/team-inventory", reference),
    ] {
        cluster.kubectl(&["patch", object, "-n", "team-a", "--type=merge", "-p", patch])?;
    }
    Ok(())
}

/// Shows the message of the changed row.
fn show_message(nats: &Nats) -> Result<()> {
    let reader = nats.reader()?;
    let last = eventually("the message of the change", || {
        let mut messages = reader.all("kollect_events", "inventory.events.>")?;
        let last = messages.pop().context("no message")?;
        let name = &last["body"]["item"]["name"];
        let image = &last["body"]["item"]["attributes"]["image"];
        ensure!(
            name == "api" && image == "registry.example/api:1.5.0",
            "{last}"
        );
        Ok(last)
    })?;
    let subject = last["subject"].as_str().unwrap_or_default();
    println!("\n$ nats sub --stream kollect_events --last inventory.events.>");
    println!("[{subject}]\n{:#}", last["body"]);
    say("the one changed row is the one new message");
    Ok(())
}

/// Shows the team's rows in its database, changes one object, and shows the row that follows.
fn deliver(cluster: &Cluster, database: &Database, repository: &Repository) -> Result<()> {
    const ROWS: &str = "SELECT payload->>'kind' AS kind, payload->>'name' AS name, \
        payload->'attributes' AS attributes FROM inventory_items ORDER BY 1, 2";
    eventually("the team's rows in its database", || {
        let rows = database.psql(ROWS)?;
        ensure!(rows.lines().count() == 3, "{rows}");
        Ok(())
    })?;
    println!(
        "\n$ psql -c \"{ROWS}\"\n{}",
        database.table(ROWS)?.trim_end()
    );

    let before = database.psql("SELECT max(exported_at) FROM inventory_items")?;
    let image = "registry.example/api:1.5.0";
    let set = [
        "set",
        "image",
        "deployment/api",
        &format!("api={image}"),
        "-n",
        "team-a",
    ];
    println!("\n$ kubectl {}", set.join(" "));
    println!("{}", cluster.kubectl(&set)?.trim_end());
    let changed = Instant::now();
    let changes = format!(
        "SELECT payload->>'name' AS name, payload->'attributes'->>'image' AS image, \
         exported_at FROM inventory_items WHERE exported_at > '{before}'"
    );
    eventually("the changed row", || {
        let rows = database.psql(&changes)?;
        ensure!(rows.contains(image), "{rows}");
        Ok(())
    })?;
    let latency = human(changed.elapsed());
    let committed = eventually("the commit of the change", || {
        let log = repository.git(&["log", "-p", "-1", "--format=%h %s", "main"])?;
        ensure!(log.contains(image), "{log}");
        Ok(log)
    })?;
    println!(
        "\n$ psql -c \"{changes}\"\n{}",
        database.table(&changes)?.trim_end()
    );
    say(&format!(
        "one object changed, one row was written; it was there {latency} after kubectl returned"
    ));
    println!(
        "\n$ git log -p -1 --format='%h %s'\n{}",
        committed.trim_end()
    );
    let get = ["get", "kollectinventories", "-n", "team-a"];
    eventually("an inventory at rest", || {
        let table = cluster.kubectl(&get)?;
        ensure!(table.contains("UpToDate"), "{table}");
        Ok(())
    })?;
    println!(
        "\n$ kubectl {}\n{}",
        get.join(" "),
        cluster.kubectl(&get)?.trim_end()
    );
    Ok(())
}

/// Shows the platform's view of all teams.
fn roll_up(cluster: &Cluster) -> Result<()> {
    let get = ["get", "kollectclusterinventories"];
    let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let ready: &[&str] = &[&get[..], &["-o", ready]].concat();
    eventually("the platform's rollup", || {
        let told = cluster.kubectl(ready)?;
        ensure!(told == "True", "Ready: {told:?}");
        Ok(())
    })?;
    let table = cluster.kubectl(&get)?;
    println!("\n$ kubectl {}\n{}", get.join(" "), table.trim_end());
    Ok(())
}

fn show(cluster: &Cluster) -> Result<()> {
    const GROUP: &str = "--api-group=kollect.dev";
    let kinds = cluster.kubectl(&["api-resources", GROUP])?;
    println!("\n$ kubectl api-resources {GROUP}\n{}", kinds.trim_end());
    let names = cluster.kubectl(&["api-resources", GROUP, "-o", "name"])?;
    for name in names.lines() {
        let table = cluster.kubectl(&["get", name, "--all-namespaces", "--ignore-not-found"])?;
        if !table.is_empty() {
            let plural = name.split('.').next().unwrap_or(name);
            println!(
                "\n$ kubectl get {plural} --all-namespaces\n{}",
                table.trim_end()
            );
        }
    }
    Ok(())
}

fn invite(control_plane: &ControlPlane, database: &Database, repository: &Repository) {
    let cluster = control_plane.cluster();
    println!("\nLook around from another terminal:");
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    println!(
        "  alias kubectl={}",
        cluster.kubectl_command().get_program().display()
    );
    println!("  kubectl explain kollectinventory.spec");
    println!("  psql '{}'", database.url(Tls::Off));
    println!("  git -C {} log -p", repository.path().display());
    println!("Logs: {}/*.log", control_plane.directory().display());
    println!("\nCtrl-C stops the servers and removes their data.");
}

/// Until this is called Ctrl-C just ends the program, and the kernel ends the servers with it.
fn wait_for_ctrl_c() -> Result<()> {
    let (sender, stop) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })
    .context("cannot listen for Ctrl-C")?;
    stop.recv().context("the handler of Ctrl-C is gone")
}
