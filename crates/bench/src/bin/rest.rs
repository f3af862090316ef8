//! Rest: what an inventory costs when nothing changes, at default intervals.

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use kollect_bench::{
    bar,
    cluster::fill,
    one_table, process,
    program::{self, Operator},
    requests::{Request, Requests},
};
use kollect_testkit::{ControlPlane, Postgres, Proxy, control_plane::Options, postgres::Tls};
use tokio::time::sleep;
use tokio_postgres::NoTls;

/// Until everything that follows a start is done: statuses, surveys, a first look.
const SETTLE: Duration = Duration::from_mins(1);

fn main() -> Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let number = |text: Option<String>, default| text.map_or(Ok(default), |text| text.parse());
    let objects: usize = number(arguments.next(), 100_000)?;
    let minutes: usize = number(arguments.next(), 10)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(objects, u32::try_from(minutes)?))
}

async fn run(objects: usize, minutes: u32) -> Result<ExitCode> {
    const NAMESPACES: usize = 10;
    println!("starting a control plane and PostgreSQL");
    let kollect = program::kollect()?;
    let plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster();
    let postgres = Postgres::start()?;
    let database = postgres.create_database("rest")?;
    let wire = Proxy::to(("127.0.0.1", postgres.port()))?;
    let dsn = database.url(Tls::Off).replace(
        &format!(":{}/", postgres.port()),
        &format!(":{}/", wire.port()),
    );
    one_table::configure(cluster, &dsn, NAMESPACES, None)?;
    let client = cluster.client(cluster.admin())?;
    fill(&client, objects, NAMESPACES).await?;
    let (table, connection) = tokio_postgres::connect(&database.url(Tls::Off), NoTls).await?;
    tokio::spawn(connection);
    let operator = Operator::start(&kollect, cluster, &[])?;
    one_table::wait_for_rows(&table, objects).await?;
    sleep(SETTLE).await;

    let server = postgres.pid().context("PostgreSQL runs")?;
    let written = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int8 \
         FROM pg_stat_user_tables WHERE relname = 'items'";
    let before = (
        operator.usage()?.cpu,
        process::family_cpu(server)?,
        wire.carried(),
        Requests::of(cluster)?,
        table.query_one(written, &[]).await?.get::<_, i64>(0),
    );
    let (began, whole) = (Instant::now(), Duration::from_mins(1) * minutes);
    while began.elapsed() < whole {
        sleep(Duration::from_secs(5).min(whole.saturating_sub(began.elapsed()))).await;
    }
    let own = operator.usage()?.cpu - before.0;
    let theirs = process::family_cpu(server)? - before.1;
    let bytes = wire.carried() - before.2;
    let statuses = Requests::of(cluster)?
        .since(&before.3)
        .count(|request| Request::is_write(request) && request.is_ours());
    let rows = table.query_one(written, &[]).await?.get::<_, i64>(0) - before.4;
    println!("{objects} rows at rest for {minutes} minutes:");
    println!("| what | figure |\n| --- | --- |");
    println!("| processor time of the operator | {own:.2} s |");
    println!("| processor time of PostgreSQL | {theirs:.2} s |");
    println!("| bytes between them, both ways | {bytes} |");
    println!("| rows written | {rows} |");
    println!("| writes to our own objects | {statuses} |");
    let share = f64::from(minutes) / 10.0;
    let bar = |name, figure, most, unit| bar::Bar {
        name,
        figure,
        most,
        unit,
    };
    let count = |number: u64| u32::try_from(number).map_or(f64::MAX, f64::from);
    Ok(bar::report(&[
        bar("processor time of the operator", own, share, "s"),
        bar("processor time of PostgreSQL", theirs, 5.0 * share, "s"),
        // Twenty looks in ten minutes, of 64 KiB at most.
        bar(
            "bytes on the wire",
            count(bytes),
            20.0 * 65_536.0 * share,
            "bytes",
        ),
        bar("rows written", count(rows.unsigned_abs()), 0.0, "rows"),
    ]))
}
