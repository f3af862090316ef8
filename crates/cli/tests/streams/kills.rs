//! The operator killed at moments of no one's choosing while objects change, and the NATS server
//! every now and then.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};

use crate::stage::Stage;

/// Kills without being told otherwise; `cargo xtask soak` tells.
const KILLS: usize = 10;

/// Every so many kills the NATS server is killed as well.
const SERVER: usize = 20;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn kills_leave_the_newest_messages_right() -> Result<()> {
    let kills = match std::env::var("KOLLECT_STREAM_KILLS") {
        Ok(text) => text.parse().context("KOLLECT_STREAM_KILLS")?,
        Err(_) => KILLS,
    };
    let mut stage = Stage::new()?;
    let mut random = Random(11);
    let mut changes = 0_u64;
    for kill in 1..=kills {
        stage.start()?;
        // Long enough for a start every third time, and shorter than one otherwise.
        let longest = if kill % 3 == 0 { 2_500 } else { 700 };
        let rounds = 1 + random.below(5);
        let pause = Duration::from_millis(random.below(longest) / rounds);
        for _ in 0..rounds {
            thread::sleep(pause);
            let name = format!("m-{}", random.below(30));
            if random.below(4) == 0 {
                stage.remove(&name)?;
            } else {
                stage.put(&name, random.below(1_000))?;
            }
            changes += 1;
        }
        if kill % SERVER == SERVER / 2 {
            stage.nats.server().kill()?;
            thread::sleep(Duration::from_millis(random.below(1_000)));
            stage.kill();
            stage.nats.server().resume()?;
        }
        stage.kill();
        if kill % 5 == 0 {
            stage.start()?;
            stage.expect_in_step()?;
            // And it stays so.
            thread::sleep(Duration::from_millis(300));
            stage.expect_in_step()?;
            stage.kill();
        }
    }
    stage.start()?;
    stage.expect_in_step()?;
    let messages = stage.appended()?;
    println!("{kills} kills, {changes} changes, {messages} messages");
    // A change may be seen by nobody, and by two processes only if the first could not say so.
    ensure!(
        messages * 10 <= changes * 12,
        "{messages} messages for {changes} changes"
    );
    Ok(())
}
