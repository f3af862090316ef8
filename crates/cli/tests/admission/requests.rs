//! Requests that nobody expects, and large ones.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{http::Client, wait::eventually};
use serde_json::{Value, json};

use crate::stage::{Case, Operator, cluster};

const PROFILE: &str = "/validate-kollect-dev-v1alpha1-kollectprofile";

fn profile(case: &Case, name: &str) -> Value {
    let spec = json!({
        "targetGVK": {"version": "v1", "kind": "Pod"},
        "attributes": [{"name": "phase", "path": "$.status.phase"}],
    });
    case.object("KollectProfile", name, &spec)
}

/// A review as an API server would send it.
fn review(version: &str, kind: &str, object: &Value) -> Value {
    json!({
        "apiVersion": version, "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "operation": "CREATE",
            "kind": {"group": "kollect.dev", "version": "v1alpha1", "kind": kind},
            "name": "x", "namespace": "n", "object": object, "userInfo": {"username": "somebody"},
        },
    })
}

fn strange_requests(case: &Case, client: &Client) -> Result<()> {
    let good = profile(case, "x");
    let v1 = "admission.k8s.io/v1";
    for (what, method, path, body, status, says) in [
        (
            "no webhook",
            "POST",
            "/validate-nothing",
            json!({}),
            404,
            "no webhook",
        ),
        (
            "another method",
            "GET",
            PROFILE,
            json!({}),
            405,
            "only POST",
        ),
        (
            "garbage",
            "POST",
            PROFILE,
            json!("garbage"),
            400,
            "AdmissionReview",
        ),
        (
            "no review",
            "POST",
            PROFILE,
            json!({}),
            400,
            "AdmissionReview",
        ),
        (
            "another version",
            "POST",
            PROFILE,
            review("admission.k8s.io/v1beta1", "KollectProfile", &good),
            400,
            "v1beta1",
        ),
        (
            "another kind",
            "POST",
            PROFILE,
            review(v1, "KollectTarget", &good),
            200,
            "KollectTarget",
        ),
        (
            "no object",
            "POST",
            PROFILE,
            review(v1, "KollectProfile", &Value::Null),
            200,
            "no object",
        ),
        (
            "a good one",
            "POST",
            PROFILE,
            review(v1, "KollectProfile", &good),
            200,
            "\"allowed\":true",
        ),
    ] {
        let answer = client.request(method, path, Some(&body))?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(
            answer.status == status && text.contains(says),
            "{what}: {} {text}",
            answer.status
        );
        if status == 200 && what != "a good one" {
            ensure!(
                text.contains("\"allowed\":false") && text.contains("705ab4f5"),
                "{what}: {text}"
            );
        }
    }
    Ok(())
}

/// Whoever announces a body and sends none gets an answer in time, and holds up nobody meanwhile.
fn slow_callers(case: &Case, operator: &Operator) -> Result<()> {
    // Those do not even begin with TLS.
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(("127.0.0.1", operator.port)))
        .collect::<Result<_, _>>()?;
    let client = operator.client(&case.trusted()?)?;
    let begun = Instant::now();
    let slow = std::thread::spawn(move || client.announce(PROFILE, 1000));
    for _ in 0..5 {
        case.is_asked()?;
    }
    let answer = slow.join().expect("no panic")?;
    ensure!(answer.status == 408, "{}", answer.status);
    ensure!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    for mut stream in silent {
        let _ = stream.write_all(b"no TLS at all\r\n\r\n");
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let _ = stream.read(&mut [0; 64]);
    }
    case.is_asked()
}

fn large_objects(case: &Case, client: &Client) -> Result<()> {
    // What nobody should have to read is refused in words, not by a broken connection.
    let mut large = review("admission.k8s.io/v1", "KollectProfile", &profile(case, "x"));
    large["request"]["userInfo"]["username"] = "a".repeat(4 << 20).into();
    let answer = client.request("POST", PROFILE, Some(&large))?;
    let text = String::from_utf8_lossy(&answer.body);
    let refused = text.contains("\"code\":413") && text.contains("705ab4f5");
    ensure!(answer.status == 200 && refused, "{} {text}", answer.status);
    // The largest that the API server takes.
    let mut largest = profile(case, "large");
    let path = format!("$.status['{}']", "a".repeat((3 << 20) - 4096));
    largest["spec"]["attributes"][0]["path"] = path.into();
    let answer = case.try_out("POST", &largest)?;
    let text = String::from_utf8_lossy(&answer.body);
    let polite = (400..500).contains(&answer.status) && !text.contains("failed calling webhook");
    ensure!(
        polite,
        "{} {}",
        answer.status,
        text.get(..500).unwrap_or(&text)
    );
    Ok(())
}

#[test]
fn strange_large_and_slow_requests_get_proper_answers() -> Result<()> {
    let case = Case::new("requests")?;
    let operator = case.serve(&[])?;
    let client = operator.client(&case.trusted()?)?;
    strange_requests(&case, &client).with_context(|| operator.log())?;
    large_objects(&case, &client).with_context(|| operator.log())?;
    slow_callers(&case, &operator).with_context(|| operator.log())
}

#[test]
fn objects_on_their_way_out_are_never_held_up() -> Result<()> {
    let case = Case::new("leaving")?;
    // Stored before there were any webhooks, with a finalizer and with what the rules refuse.
    let mut bad = profile(&case, "bad");
    bad["spec"]["attributes"][0]["path"] = "cel:1 +".into();
    bad["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let answer = case.send("POST", &bad)?;
    ensure!(
        answer.is_success(),
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    let operator = case.serve(&[])?;
    // A label may change, with a warning; the spec may not become worse.
    let mut labelled = case.get(&bad)?;
    labelled["metadata"]["labels"]["a"] = "b".into();
    let answer = case.try_out("PUT", &labelled)?;
    ensure!(
        answer.is_success(),
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    let warnings = answer.warnings();
    let told = warnings
        .iter()
        .any(|warning| warning.contains("no longer valid"));
    ensure!(told, "{warnings:?}");
    labelled["spec"]["attributes"][0]["path"] = "cel:2 +".into();
    ensure!(case.try_out("PUT", &labelled)?.status == 403);
    // Deleting is nobody's business, and so is the end of the finalizer.
    let (namespace, name) = (&*case.namespace, "kollectprofile/bad");
    cluster().kubectl(&["delete", name, "-n", namespace, "--wait=false"])?;
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    cluster().kubectl(&["patch", name, "-n", namespace, "--type=merge", "-p", patch])?;
    eventually("an object that is gone", || {
        ensure!(case.get(&bad).is_err(), "still there\n{}", operator.log());
        Ok(())
    })
}
