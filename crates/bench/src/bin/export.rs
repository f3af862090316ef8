//! Export on real servers: how long the operator takes to bring everything into PostgreSQL, what it
//! needs for that, and how fast one change among many follows.

use std::{
    env,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kollect_bench::{
    bar,
    cluster::{bare_list, f64_of, fill, median},
    load, one_table, process,
    program::{self, Operator},
};
use kollect_testkit::{ControlPlane, Postgres, control_plane::Options, postgres::Tls};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::sleep;
use tokio_postgres::NoTls;

/// Single changes whose latency is measured.
const CHANGES: usize = 300;
/// Full exports that are measured.
const ROUNDS: usize = 3;

fn main() -> Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let number = |text: Option<String>, default| text.map_or(Ok(default), |text| text.parse());
    let objects: usize = number(arguments.next(), 10_000)?;
    let namespaces: usize = number(arguments.next(), 10)?;
    let kollect = program::kollect()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(objects, namespaces, &kollect))
}

async fn run(objects: usize, namespaces: usize, kollect: &Path) -> Result<ExitCode> {
    println!("starting a control plane and PostgreSQL");
    let plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster();
    let postgres = Postgres::start()?;
    let database = postgres.create_database("bench")?;
    one_table::configure(cluster, &database.url(Tls::Off), namespaces, Some("0s"))?;
    let client = cluster.client(cluster.admin())?;
    fill(&client, objects, namespaces).await?;
    let (table, connection) = tokio_postgres::connect(&database.url(Tls::Off), NoTls).await?;
    let connection = tokio::spawn(connection);

    let mut runs = Vec::new();
    for round in 1..=ROUNDS {
        let bare = bare_list(cluster, objects).await?;
        table.batch_execute("DROP TABLE IF EXISTS items").await?;
        let started = Instant::now();
        let operator = Operator::start(kollect, cluster, &[])?;
        one_table::wait_for_rows(&table, objects).await?;
        let exported = started.elapsed();
        sleep(Duration::from_secs(3)).await;
        let usage = operator.usage()?;
        println!(
            "round {round}: bare list {bare:.2?}, all rows in PostgreSQL after {exported:.2?}, \
             peak {:.1} MiB, steady {:.1} MiB, {:.2} CPU s",
            usage.peak, usage.resident, usage.cpu
        );
        if round == ROUNDS {
            let changes = single_changes(&client, &table, objects, namespaces).await?;
            let usage = operator.usage()?;
            println!(
                "{CHANGES} single changes: p50 {:.1} ms, p99 {:.1} ms from the write to the API \
                 server until the row is committed; {} rows written",
                changes.p50, changes.p99, changes.written
            );
            runs.push((bare, exported, usage));
            connection.abort();
            return Ok(bar::report(&bars(objects, &runs, &changes)));
        }
        runs.push((bare, exported, usage));
    }
    bail!("no round was run")
}

/// What single changes cost.
struct Changes {
    p50: f64,
    p99: f64,
    written: usize,
}

fn bars(
    objects: usize,
    runs: &[(Duration, Duration, process::Usage)],
    changes: &Changes,
) -> [bar::Bar; 4] {
    let bare = median(runs.iter().map(|(bare, ..)| bare.as_secs_f64()));
    let exported = median(runs.iter().map(|(_, exported, _)| exported.as_secs_f64()));
    let peak = runs
        .iter()
        .map(|(.., usage)| usage.peak)
        .fold(0.0, f64::max);
    let share = (f64_of(objects) - 10_000.0).max(0.0) / 90_000.0;
    [
        bar::Bar {
            name: "full export against a bare list, medians",
            figure: exported / bare,
            most: 2.0,
            unit: "x",
        },
        bar::Bar {
            name: "peak memory",
            figure: peak,
            most: 80.0 + (256.0 - 80.0) * share,
            unit: "MiB",
        },
        bar::Bar {
            name: "p99 of a single change",
            figure: changes.p99,
            most: 250.0,
            unit: "ms",
        },
        bar::Bar {
            name: "rows written per change",
            figure: f64_of(changes.written) / f64_of(CHANGES),
            most: 1.0,
            unit: "rows",
        },
    ]
}

/// Changes objects one at a time and waits for each row.
async fn single_changes(
    client: &Client,
    table: &tokio_postgres::Client,
    objects: usize,
    namespaces: usize,
) -> Result<Changes> {
    table
        .batch_execute(
            "CREATE TABLE written (name text);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
               BEGIN INSERT INTO written VALUES (coalesce(NEW.source_uid, OLD.source_uid));
               RETURN NULL; END $$;
             CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON items
               FOR EACH ROW EXECUTE FUNCTION note();",
        )
        .await?;
    let find = table
        .prepare("SELECT payload->'attributes'->>'replicas' FROM items WHERE source_uid = $1")
        .await?;
    let mut times = Vec::with_capacity(CHANGES);
    for change in 0..CHANGES {
        let index = change * 7_919 % objects;
        let api: Api<Deployment> =
            Api::namespaced(client.clone(), &load::namespace(index, namespaces));
        let replicas = (1_000 + change).to_string();
        let patch = json!({"spec": {"replicas": 1_000 + change}});
        let name = format!("app-{index:06}");
        let started = Instant::now();
        let changed = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        let uid = changed.metadata.uid.context("an object has a uid")?;
        loop {
            let rows = table.query(&find, &[&uid]).await?;
            let seen: Option<String> = rows.first().and_then(|row| row.get(0));
            if seen.as_deref() == Some(&*replicas) {
                break;
            }
            ensure!(
                started.elapsed() < Duration::from_secs(30),
                "{name} did not arrive; the row says {seen:?}"
            );
            sleep(Duration::from_millis(2)).await;
        }
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    let written: i64 = table
        .query_one("SELECT count(*) FROM written", &[])
        .await?
        .get(0);
    Ok(Changes {
        p50: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
        written: usize::try_from(written)?,
    })
}
