//! Hostile neighbours: one namespace does everything that may hurt an operator, all at once, and
//! another one must not notice.
//!
//! The built program runs as a service account between a real kube-apiserver and a real PostgreSQL.
//! Beside them are servers that mean harm ([`kollect_testkit::hostile`]). While the hostile namespace
//! keeps the operator busy, the good one changes objects; what it measures are the promises of
//! [`bars`].
//!
//! `KOLLECT_NEIGHBOURS_SECONDS` says for how long; `cargo xtask soak` asks for ten minutes.

mod bars;
mod definitions;
mod delays;
mod good;
mod hostile;
mod stage;
mod vigil;

use std::{env, time::Duration};

use anyhow::{Context as _, Result};

use kollect_testkit::usage::usage;

use crate::{
    bars::{Figures, Measured},
    good::Tenant,
    hostile::Neighbours,
    stage::{Stage, stop},
    vigil::Vigil,
};

/// How long objects change if nobody says otherwise.
const SECONDS: u64 = 50;

#[test]
fn hostile_neighbours_cost_others_nothing() -> Result<()> {
    let seconds = match env::var("KOLLECT_NEIGHBOURS_SECONDS") {
        Ok(text) => text.parse().context("KOLLECT_NEIGHBOURS_SECONDS")?,
        Err(_) => SECONDS,
    };
    let stage = Stage::new()?;
    definitions::create(&stage.api()?)?;
    let hostile = Neighbours::settle(&stage)?;
    let tenant = Tenant::settle(&stage)?;

    let mut operator = stage.start_operator()?;
    let vigil = Vigil::begin(&stage, tenant.namespace())?;
    let during = Duration::from_secs(seconds);
    let measured = measure(&stage, &tenant, &hostile, during);
    let figures = Figures {
        measured,
        usage: usage(operator.pid()).unwrap_or_default(),
        watched: vigil.end(),
        stopped: stop(&mut operator),
        log: std::fs::read_to_string(operator.log())?,
    };
    figures.judge()
}

/// Lets both namespaces do what they do.
fn measure(
    stage: &Stage,
    tenant: &Tenant,
    hostile: &Neighbours,
    during: Duration,
) -> Result<Measured> {
    good::wait_for_rows(stage)?;
    hostile.wait_until_met()?;
    let changes = tenant.change(stage, hostile, during)?;
    Ok(Measured {
        untold: hostile.told(stage)?,
        delays: good::delays(stage, &changes)?,
    })
}
