//! Many teams at once: what a start, a restart, rest, one change and a new team cost when every
//! team has its own namespace, targets, inventory and sink, beside a bare list and beside the same
//! rows in one inventory.

use std::{
    env,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kollect_api::{
    KollectInventory, KollectTarget,
    condition::{Condition, ConditionStatus},
    crd,
};
use kollect_bench::{
    bar::{self, Bar},
    cluster::{bare_list, create_namespaces, f64_of, fill},
    load,
    process::{self, Usage},
    program::{self, Operator},
    requests::{Request, Requests},
    tenants::{self, TOGETHER},
};
use kollect_testkit::{
    ControlPlane, Postgres,
    control_plane::Options,
    postgres::{Database, Tls},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::sleep;
use tokio_postgres::NoTls;

/// What the database server takes at most: far fewer than there are teams.
const CONNECTIONS: &str = "50";
/// Single changes whose latency is measured.
const CHANGES: usize = 200;
/// How long rest is watched.
const REST: Duration = Duration::from_mins(1);

fn main() -> Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (teams, targets, objects) = (number(200)?, number(5)?, number(20_000)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let stage = Stage::new(teams, targets, objects)?;
    runtime.block_on(stage.run())
}

/// The servers and the load.
struct Stage {
    kollect: PathBuf,
    plane: ControlPlane,
    postgres: Postgres,
    database: Database,
    teams: usize,
    targets: usize,
    objects: usize,
}

/// What one start came to.
struct Start {
    /// Until all rows were there.
    rows: Duration,
    /// Until all statuses were written.
    statuses: Duration,
    usage: Usage,
    requests: Requests,
    /// The most connections seen at a time: to the API server, to the database.
    connections: (usize, usize),
}

impl Stage {
    fn new(teams: usize, targets: usize, objects: usize) -> Result<Self> {
        println!("starting a control plane and PostgreSQL");
        let kollect = program::kollect()?;
        let plane = ControlPlane::start_with(Options { controllers: false })?;
        let postgres = Postgres::start_with(&[("max_connections", CONNECTIONS)])?;
        let database = postgres.create_database("tenants")?;
        Ok(Self {
            kollect,
            plane,
            postgres,
            database,
            teams,
            targets,
            objects,
        })
    }

    /// One namespace more than teams: the last one is for the team that comes later.
    fn namespaces(&self) -> usize {
        self.teams + 1
    }

    /// The rows of all teams, and of one.
    fn rows(&self) -> usize {
        let newcomers = (self.objects / self.namespaces()) * self.targets;
        self.objects * self.targets - newcomers
    }

    fn manifests(&self, home: &str, collected: &[String], table: &str) -> Vec<serde_json::Value> {
        let dsn = self.database.url(Tls::Off);
        tenants::manifests(home, collected, self.targets, &dsn, table)
    }

    async fn run(&self) -> Result<ExitCode> {
        let cluster = self.plane.cluster();
        cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
        create_namespaces(cluster, self.namespaces())?;
        cluster.kubectl(&["create", "namespace", TOGETHER])?;
        let client = cluster.client(cluster.admin())?;
        fill(&client, self.objects, self.namespaces()).await?;
        let (table, connection) =
            tokio_postgres::connect(&self.database.url(Tls::Off), NoTls).await?;
        let connection = tokio::spawn(connection);

        let homes: Vec<String> = (0..self.teams)
            .map(|at| load::namespace(at, self.namespaces()))
            .collect();
        tenants::create(&client, self.manifests(TOGETHER, &homes, "together")).await?;
        let bare = bare_list(cluster, self.objects).await?;
        println!("bare list of {} objects: {bare:.2?}", self.objects);
        let before = Requests::of(cluster)?;
        let operator = Operator::start(&self.kollect, cluster, &[])?;
        let together = self
            .started(&client, &operator, &table, "together", &before)
            .await?;
        together.tell("the same rows in one inventory");
        // One kind after the other, with the operator there to clean up.
        for kind in [
            "kollectinventories",
            "kollecttargets",
            "kollectdatabasesinks",
        ] {
            cluster.kubectl(&["delete", kind, "--all", "-n", TOGETHER])?;
        }
        drop(operator);

        println!("{} teams with {} target(s) each", self.teams, self.targets);
        let mut all = Vec::new();
        for home in &homes {
            all.extend(self.manifests(home, std::slice::from_ref(home), "items"));
        }
        tenants::create(&client, all).await?;
        let before = Requests::of(cluster)?;
        let operator = Operator::start(&self.kollect, cluster, &[])?;
        let first = self
            .started(&client, &operator, &table, "items", &before)
            .await?;
        first.tell("first start");
        drop(operator);

        note_writes(&table).await?;
        let before = Requests::of(cluster)?;
        let operator = Operator::start(&self.kollect, cluster, &[])?;
        sleep(Duration::from_secs(30)).await;
        let again = self
            .started(&client, &operator, &table, "items", &before)
            .await?;
        let rewritten = written(&table).await?;
        again.tell("restart, after half a minute");
        println!("    {rewritten} rows written");

        let rest = self.rest(&operator).await?;
        println!(
            "rest, per minute: operator {:.2} CPU s, PostgreSQL {:.2} CPU s, {:.1} MiB",
            rest.operator, rest.postgres, rest.resident
        );
        let changes = self.changes(&client, &table).await?;
        println!(
            "{CHANGES} single changes: p50 {:.1} ms, p99 {:.1} ms until all rows are committed",
            changes[changes.len() / 2],
            changes[changes.len() * 99 / 100]
        );
        let newcomer = self.newcomer(&client, &table).await?;
        println!("a new team: first rows after {newcomer:.2?}");
        connection.abort();
        let many = self.teams > 500;
        Ok(bar::report(&bars(&Figures {
            many,
            bare: bare.as_secs_f64(),
            objects: self.teams * self.targets,
            teams: self.teams,
            first,
            again,
            rewritten,
            rest,
            p99: changes[changes.len() * 99 / 100],
            newcomer: newcomer.as_secs_f64(),
        })))
    }

    /// Follows a start until rows and statuses are there.
    async fn started(
        &self,
        client: &Client,
        operator: &Operator,
        table: &tokio_postgres::Client,
        name: &str,
        before: &Requests,
    ) -> Result<Start> {
        let cluster = self.plane.cluster();
        let started = Instant::now();
        let mut connections = (0, 0);
        let mut rows_after = None;
        let patience = Duration::from_mins(10);
        let ports = (api_port(&cluster.url())?, self.postgres.port());
        let statuses = loop {
            ensure!(
                started.elapsed() < patience,
                "not complete after {patience:?}"
            );
            connections.0 = connections
                .0
                .max(process::connections(operator.pid(), ports.0)?);
            connections.1 = connections
                .1
                .max(process::connections(operator.pid(), ports.1)?);
            if rows_after.is_none() {
                if count(table, name).await? == self.rows() {
                    rows_after = Some(started.elapsed());
                }
                sleep(Duration::from_millis(100)).await;
            } else if settled(client, name == "together").await? {
                break started.elapsed();
            } else {
                sleep(Duration::from_millis(500)).await;
            }
        };
        Ok(Start {
            rows: rows_after.context("the loop ends with all rows")?,
            statuses,
            usage: operator.usage()?,
            requests: Requests::of(cluster)?.since(before),
            connections,
        })
    }

    async fn rest(&self, operator: &Operator) -> Result<Rest> {
        // What a start leaves to do is done.
        sleep(Duration::from_secs(20)).await;
        let pid = self.postgres.pid().context("PostgreSQL runs")?;
        let (own, server) = (operator.usage()?.cpu, process::family_cpu(pid)?);
        sleep(REST).await;
        Ok(Rest {
            operator: operator.usage()?.cpu - own,
            postgres: process::family_cpu(pid)? - server,
            resident: operator.usage()?.resident,
        })
    }

    /// Changes objects one at a time and waits for the rows of all targets.
    async fn changes(&self, client: &Client, table: &tokio_postgres::Client) -> Result<Vec<f64>> {
        let find = "SELECT count(*) FROM items WHERE source_uid = $1 AND payload->'attributes'->>'replicas' = $2";
        let find = table.prepare(find).await?;
        let mut times = Vec::with_capacity(CHANGES);
        for change in 0..CHANGES {
            let index = change * 7_919 % self.objects;
            let namespace = load::namespace(index, self.namespaces());
            if index % self.namespaces() == self.teams {
                continue;
            }
            let api: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
            let replicas = 1_000 + change;
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            let started = Instant::now();
            let changed = api
                .patch(&format!("app-{index:06}"), &PatchParams::default(), &patch)
                .await?;
            let uid = changed.metadata.uid.context("an object has a uid")?;
            let replicas = replicas.to_string();
            loop {
                let rows: i64 = table.query_one(&find, &[&uid, &replicas]).await?.get(0);
                if rows == i64::try_from(self.targets)? {
                    break;
                }
                ensure!(
                    started.elapsed() < Duration::from_secs(30),
                    "a change did not arrive"
                );
                sleep(Duration::from_millis(2)).await;
            }
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    async fn newcomer(&self, client: &Client, table: &tokio_postgres::Client) -> Result<Duration> {
        let home = load::namespace(self.teams, self.namespaces());
        let before = count(table, "items").await?;
        let collected = std::slice::from_ref(&home);
        tenants::create(client, self.manifests(&home, collected, "items")).await?;
        let started = Instant::now();
        while count(table, "items").await? == before {
            ensure!(
                started.elapsed() < Duration::from_mins(2),
                "a new team got no rows"
            );
            sleep(Duration::from_millis(10)).await;
        }
        Ok(started.elapsed())
    }
}

impl Start {
    fn tell(&self, what: &str) {
        println!(
            "{what}: all rows after {:.2?}, all statuses after {:.2?}, {:.2} CPU s, peak {:.1} MiB, \
             {:.1} MiB; at most {} connection(s) to the API server, {} to the database",
            self.rows,
            self.statuses,
            self.usage.cpu,
            self.usage.peak,
            self.usage.resident,
            self.connections.0,
            self.connections.1
        );
        for ((resource, part), count) in self.requests.by_resource(is_told) {
            println!("    {count} writes to {resource} {part}");
        }
        println!("    {} writes failed", self.failed());
    }

    fn failed(&self) -> u64 {
        self.requests
            .count(|request| is_told(request) && !request.succeeded())
    }

    fn written(&self, of: impl Fn(&Request) -> bool) -> u64 {
        self.requests
            .count(|request| is_told(request) && of(request))
    }
}

/// Writes to our own kinds and events.
fn is_told(request: &Request) -> bool {
    request.is_write() && (request.is_ours() || request.resource == "events")
}

struct Rest {
    operator: f64,
    postgres: f64,
    resident: f64,
}

struct Figures {
    many: bool,
    bare: f64,
    /// Targets.
    objects: usize,
    teams: usize,
    first: Start,
    again: Start,
    rewritten: i64,
    rest: Rest,
    p99: f64,
    newcomer: f64,
}

fn bars(figures: &Figures) -> Vec<Bar> {
    let Figures { first, again, .. } = figures;
    let bar = |name, figure, most, unit| Bar {
        name,
        figure,
        most,
        unit,
    };
    let whole = |count: u64| f64_of(usize::try_from(count).unwrap_or(usize::MAX));
    // A finalizer and a status for each target and inventory, a status for each sink.
    let needed = f64_of(2 * figures.objects + 3 * figures.teams);
    let writes = whole(first.written(Request::is_ours));
    let events = |start: &Start| whole(start.written(|request| request.resource == "events"));
    let rows = first.rows.as_secs_f64();
    if figures.many {
        return vec![
            bar(
                "first start, until all rows are there",
                rows,
                3.0 * figures.bare + 20.0,
                "s",
            ),
            bar("memory at rest", figures.rest.resident, 200.0, "MiB"),
            bar("failed writes", whole(first.failed()), 0.0, "writes"),
        ];
    }
    vec![
        bar(
            "first start, until all rows are there",
            rows,
            2.0 * figures.bare + 5.0,
            "s",
        ),
        bar(
            "first start, until all statuses are written",
            first.statuses.as_secs_f64(),
            60.0,
            "s",
        ),
        bar(
            "first start, failed writes",
            whole(first.failed()),
            0.0,
            "writes",
        ),
        bar(
            "first start, requests per object and write",
            writes / needed,
            1.2,
            "requests",
        ),
        bar(
            "connections to the API server",
            f64_of(first.connections.0),
            8.0,
            "connections",
        ),
        bar(
            "connections to the database",
            f64_of(first.connections.1),
            4.0,
            "connections",
        ),
        bar("first start, processor time", first.usage.cpu, 20.0, "s"),
        bar("first start, peak memory", first.usage.peak, 160.0, "MiB"),
        bar(
            "restart, status writes",
            whole(again.written(Request::is_ours)),
            0.0,
            "writes",
        ),
        bar("restart, events", events(again), 0.0, "events"),
        bar(
            "restart, rows written",
            f64_of(usize::try_from(figures.rewritten).unwrap_or(usize::MAX)),
            0.0,
            "rows",
        ),
        bar("restart, processor time", again.usage.cpu, 6.0, "s"),
        bar(
            "rest, processor time of the operator per minute",
            figures.rest.operator,
            0.5,
            "s",
        ),
        bar(
            "rest, processor time of PostgreSQL per minute",
            figures.rest.postgres,
            1.0,
            "s",
        ),
        bar("rest, memory", figures.rest.resident, 120.0, "MiB"),
        bar("p99 of a single change", figures.p99, 100.0, "ms"),
        bar(
            "a new team, until its first rows are there",
            figures.newcomer,
            2.0,
            "s",
        ),
    ]
}

/// Whether all targets and inventories of the load say that they are ready and in step.
async fn settled(client: &Client, together: bool) -> Result<bool> {
    let here = |namespace: Option<&String>| {
        namespace.is_some_and(|namespace| (namespace == TOGETHER) == together)
    };
    let all = ListParams::default();
    let targets: Api<KollectTarget> = Api::all(client.clone());
    for target in targets.list(&all).await? {
        if here(target.metadata.namespace.as_ref())
            && !target.status.is_some_and(|status| {
                status.collected_count.is_some() && holds(&status.conditions, "Ready")
            })
        {
            return Ok(false);
        }
    }
    let inventories: Api<KollectInventory> = Api::all(client.clone());
    for inventory in inventories.list(&all).await? {
        if here(inventory.metadata.namespace.as_ref())
            && !inventory.status.is_some_and(|status| {
                holds(&status.conditions, "Ready") && holds(&status.conditions, "Synced")
            })
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(conditions: &[Condition], type_: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == ConditionStatus::True)
}

fn api_port(url: &str) -> Result<u16> {
    let port = url.rsplit(':').next().unwrap_or_default();
    port.trim_end_matches('/')
        .parse()
        .with_context(|| format!("{url} names no port"))
}

async fn count(table: &tokio_postgres::Client, name: &str) -> Result<usize> {
    let known = table
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&name])
        .await?;
    if !known.get::<_, bool>(0) {
        return Ok(0);
    }
    let rows: i64 = table
        .query_one(&format!("SELECT count(*) FROM {name}"), &[])
        .await?
        .get(0);
    Ok(usize::try_from(rows)?)
}

/// Has every write to the table noted from now on.
async fn note_writes(table: &tokio_postgres::Client) -> Result<()> {
    let note = "CREATE TABLE written (name text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN INSERT INTO written VALUES (coalesce(NEW.source_uid, OLD.source_uid));
           RETURN NULL; END $$;
         CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON items
           FOR EACH ROW EXECUTE FUNCTION note();";
    Ok(table.batch_execute(note).await?)
}

async fn written(table: &tokio_postgres::Client) -> Result<i64> {
    let count = "SELECT count(*) FROM written";
    Ok(table.query_one(count, &[]).await?.get(0))
}
