//! Changes, restarts and the end of an inventory, as somebody else reads them from the stream.

use anyhow::{Result, ensure};

use crate::stage::{STREAM, Stage};

/// From the cluster to the message of the one changed row; C4, C6 and C16 across processes.
#[test]
fn changes_restarts_and_the_end_of_an_inventory() -> Result<()> {
    let mut stage = Stage::new()?;
    stage.put("a", 1)?;
    stage.put("b", 1)?;
    stage.start()?;
    stage.expect_in_step()?;
    ensure!(stage.appended()? == 2, "two rows are two messages");

    stage.put("a", 2)?;
    stage.expect_in_step()?;
    ensure!(stage.appended()? == 3, "one change is one message");
    let all = stage.reader.all(STREAM, "inventory.>")?;
    let last = &all[all.len() - 1];
    ensure!(last["body"]["item"]["name"] == "a", "{last}");
    ensure!(last["body"]["inventory"] == "inv", "{last}");
    ensure!(
        last["headers"]["ce-type"] == "dev.kollect.row.upsert",
        "{last}"
    );
    stage.eventually("a status that says so", || {
        let status = stage.status()?;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let good = |c: &serde_json::Value| c["type"] == "Synced" && c["status"] == "True";
        ensure!(conditions.iter().any(good), "{status}");
        Ok(())
    })?;

    // Nothing changed while it was away: what comes next is the only thing that is said.
    stage.kill();
    stage.start()?;
    stage.put("c", 1)?;
    stage.expect_in_step()?;
    ensure!(stage.appended()? == 4, "C4: a restart repeats nothing");

    stage.kill();
    stage.remove("a")?;
    stage.put("b", 5)?;
    stage.start()?;
    stage.expect_in_step()?;
    ensure!(
        stage.appended()? == 6,
        "C6: what happened meanwhile, once each"
    );

    stage.delete_inventory()?;
    stage.eventually("C16: everything is gone", || {
        let newest = stage.newest()?;
        ensure!(newest.is_empty(), "{newest:?}");
        Ok(())
    })?;
    ensure!(stage.appended()? == 8, "one delete for each row");
    Ok(())
}
