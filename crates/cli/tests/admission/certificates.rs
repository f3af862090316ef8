//! Certificates: made once, renewed without a gap, restored, and read from files.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use kollect_admission::certificates::{Content, Step, Terms, Unfit, take};
use kollect_testkit::{pki::Authority, wait::eventually};
use serde_json::json;

use crate::stage::{Case, Operator, cluster};

/// Whether an operator serves a certificate of one of these authorities.
fn serves(operator: &Operator, authorities: &str) -> Result<()> {
    let answer = operator.client(authorities)?.request("GET", "/", None)?;
    ensure!(answer.status == 404, "{}", answer.status);
    Ok(())
}

fn put_secret(case: &Case, content: &Content) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kollect-webhook-cert", "namespace": case.namespace},
        "data": content.write(),
    });
    case.overwrite(&secret)
}

#[test]
fn three_replicas_at_once_share_one_authority_and_repair_what_is_broken() -> Result<()> {
    let case = Case::new("replicas")?;
    // Short terms make them look often.
    let flags = ["--webhook-cert-lifetime=1h"];
    let replicas = [
        case.spawn(&flags)?,
        case.spawn(&flags)?,
        case.spawn(&flags)?,
    ];
    case.register(replicas[0].port)?;
    for replica in &replicas {
        replica.wait()?;
    }
    let made = case.content()?;
    let all_serve = |content: &Content| {
        for replica in &replicas {
            serves(replica, &content.authority.certificate).with_context(|| replica.log())?;
        }
        ensure!(
            case.trusted()? == content.bundle(),
            "another authority is trusted"
        );
        ensure!(case.content()? == *content, "another content is stored");
        case.is_asked()
    };
    eventually("one authority", || all_serve(&made))?;

    // Deleted: what is served is written again, and nobody has to learn of a new authority.
    cluster().kubectl(&[
        "delete",
        "secret",
        "kollect-webhook-cert",
        "-n",
        &case.namespace,
    ])?;
    case.is_asked()?;
    eventually("the Secret, again", || all_serve(&made))?;

    // A certificate of somebody else, with his key.
    let foreign = anew(Timestamp::now(), &Terms::default())?;
    let mut mixed = made.clone();
    mixed.serving = foreign.serving;
    put_secret(&case, &mixed)?;
    eventually("our certificate, again", || all_serve(&made))?;

    // Garbage.
    let garbage = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kollect-webhook-cert", "namespace": case.namespace},
        "data": {"tls.crt": "Z2FyYmFnZQ=="},
    });
    case.overwrite(&garbage)?;
    eventually("our content, again", || all_serve(&made))?;

    // Somebody forgot whom to trust.
    let port = replicas[0].port;
    let stranger = Authority::new("a stranger")?.pem();
    case.register_trusting(port, Some(&stranger))?;
    eventually("the right authority", || all_serve(&made))
}

fn anew(made: Timestamp, terms: &Terms) -> Result<Content> {
    let step = Step::Replace(Unfit::Absent);
    let names = ["127.0.0.1".to_owned()];
    take(&step, None, &names, made, terms)?.context("a content")
}

/// What was made so many seconds ago.
fn ago(seconds: i64) -> Result<Timestamp> {
    Ok(Timestamp::from_second(
        Timestamp::now().as_second() - seconds,
    )?)
}

/// Both certificate and authority are due when the operator begins, so that it renews, announces,
/// switches and retires while objects are written all the time.
#[test]
fn a_stream_of_admissions_does_not_notice_renewal_and_a_new_authority() -> Result<()> {
    let case = Case::new("renewal")?;
    // A minute each: certificates that are in use hold for much longer than anything here takes.
    let terms = Terms::of(Duration::from_mins(1));
    let old = anew(ago(170)?, &terms)?;
    let renew = Step::Renew("");
    let names = [
        "127.0.0.1".to_owned(),
        format!("kollect-webhook-service.{}.svc", case.namespace),
        format!(
            "kollect-webhook-service.{}.svc.cluster.local",
            case.namespace
        ),
    ];
    let old = take(&renew, Some(&old), &names, ago(20)?, &terms)?.context("renewed")?;
    put_secret(&case, &old)?;
    let operator = case.serve(&["--webhook-cert-lifetime=1m"])?;

    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let good = json!({
        "targetGVK": {"version": "v1", "kind": "Pod"},
        "attributes": [{"name": "phase", "path": "$.status.phase"}],
    });
    let good = case.object("KollectProfile", "good", &good);
    let stream = || -> Result<()> {
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            let answer = case.try_out("POST", &good)?;
            let text = String::from_utf8_lossy(&answer.body);
            ensure!(answer.is_success(), "admission {number}: {text}");
            // Fifty per second, as far as the machine can.
            let due = Duration::from_millis(20) * u32::try_from(number)?;
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        Ok(())
    };
    let watch = || -> Result<Vec<Content>> {
        let mut seen: Vec<Content> = Vec::new();
        let begun = Instant::now();
        loop {
            ensure!(
                begun.elapsed() < Duration::from_mins(3),
                "no new authority\n{}",
                operator.log()
            );
            let now = case.content()?;
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            let Some(last) = seen.last() else { continue };
            let new = last.authority != old.authority;
            if new && last.former.is_empty() && last.next.is_none() {
                // The stream goes on for a while with the old authority gone.
                thread::sleep(Duration::from_secs(3));
                return Ok(seen);
            }
            thread::sleep(Duration::from_millis(100));
        }
    };
    let (streamed, seen) = thread::scope(|scope| {
        let streaming = scope.spawn(stream);
        let seen = watch();
        stop.store(true, Ordering::Relaxed);
        (streaming.join().expect("no panic"), seen)
    });
    streamed.with_context(|| operator.log())?;
    let seen = seen?;
    let count = |certificates: usize| {
        let with = |content: &&Content| content.bundle().matches("BEGIN").count() == certificates;
        seen.iter().filter(with).count()
    };
    ensure!(
        count(2) >= 2,
        "announced and switched: {}\n{}",
        seen.len(),
        operator.log()
    );
    let sent = sent.load(Ordering::Relaxed);
    ensure!(sent > 100, "only {sent} admissions");
    let last = seen.last().context("a content")?;
    ensure!(
        case.trusted()? == last.bundle(),
        "the old authority is trusted still"
    );
    Ok(())
}

#[test]
fn files_are_read_again_when_they_change() -> Result<()> {
    let case = Case::new("files")?;
    let directory = case.directory()?;
    let write = |authority: &Authority| -> Result<()> {
        let identity = authority.server(&["127.0.0.1"])?;
        // The key first: in between the two do not belong together, and the old ones stay in use.
        fs::write(directory.join("tls.key"), identity.key_pem)?;
        fs::write(directory.join("tls.crt"), identity.cert_pem)?;
        Ok(())
    };
    let first = Authority::new("first")?;
    write(&first)?;
    let flag = format!("--webhook-cert-dir={}", directory.display());
    let operator = case.start(&[&flag])?;
    case.register_trusting(operator.port, Some(&first.pem()))?;
    eventually("webhooks with the first certificate", || case.is_asked())?;
    ensure!(case.content().is_err(), "no Secret is needed");

    let second = Authority::new("second")?;
    write(&second)?;
    eventually("the second certificate", || {
        serves(&operator, &second.pem())
    })?;
    case.register_trusting(operator.port, Some(&second.pem()))?;
    eventually("webhooks with the second certificate", || case.is_asked())?;

    // Without files there is a clear end at the start.
    let missing = case.spawn(&["--webhook-cert-dir=/nowhere"])?;
    eventually("an end", || {
        let log = missing.log();
        ensure!(
            log.contains("--webhook-cert-dir") && log.contains("/nowhere"),
            "{log}"
        );
        Ok(())
    })
}
