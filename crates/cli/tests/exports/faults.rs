//! What happens to processes and servers.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};

use crate::{
    churn::{Churn, Random},
    stage::Stage,
};

/// How often the operator is killed; `cargo xtask soak` asks for more.
fn kills() -> Result<usize> {
    match std::env::var("KOLLECT_KILLS") {
        Ok(text) => text.parse().context("KOLLECT_KILLS"),
        Err(_) => Ok(200),
    }
}

/// Records every row that is deleted, so that none can vanish and come back unseen.
const TRIGGER: &str = "\
    CREATE TABLE deleted (name text);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO deleted VALUES (OLD.payload->>'name'); RETURN OLD; END $$;
    CREATE TRIGGER note BEFORE DELETE ON items FOR EACH ROW EXECUTE FUNCTION note();";

/// Fails if a row of an object that nobody touched was ever deleted.
fn expect_untouched(stage: &Stage) -> Result<()> {
    let deleted = stage
        .database
        .psql("SELECT count(*) FROM deleted WHERE name LIKE 'still-%'")?;
    ensure!(
        deleted == "0",
        "{deleted} rows of untouched objects were deleted"
    );
    Ok(())
}

#[test]
fn kills_and_outages_lose_nothing_and_delete_nothing() -> Result<()> {
    let mut stage = Stage::new()?;
    for number in 0..30 {
        stage.put(&format!("still-{number}"), number)?;
    }
    stage.inventory("0s")?;
    stage.start()?;
    stage.expect_in_step("items")?;
    stage.database.psql(TRIGGER)?;

    let churn = Churn::start(&stage)?;
    let mut random = Random(2026);
    let kills = kills()?;
    for kill in 1..=kills {
        stage.kill()?;
        stage.start()?;
        thread::sleep(Duration::from_millis(random.next() % 700));
        if kill % 40 == 0 {
            let paused = churn.pause();
            stage.expect_in_step("items")?;
            expect_untouched(&stage)?;
            drop(paused);
        }
    }

    // The database goes away for a while, in the middle of everything.
    stage.postgres.crash()?;
    thread::sleep(Duration::from_secs(8));
    stage.postgres.server().resume()?;
    let paused = churn.pause();
    stage.expect_in_step("items")?;
    expect_untouched(&stage)?;
    drop(paused);

    // So does the API server, for a minute; the operator outlives it.
    stage.plane.apiserver().kill()?;
    thread::sleep(Duration::from_mins(1));
    let operator = stage.operator.as_mut().context("it runs")?;
    ensure!(operator.is_running(), "the operator gave up");
    stage.plane.apiserver().resume()?;
    thread::sleep(Duration::from_secs(2));
    let paused = churn.pause();
    stage.expect_in_step("items")?;
    expect_untouched(&stage)?;
    drop(paused);

    let changes = churn.stop();
    ensure!(changes > kills, "only {changes} changes happened meanwhile");
    stage.expect_in_step("items")?;
    expect_untouched(&stage)
}
