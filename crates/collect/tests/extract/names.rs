//! How well sensitive names are recognised.

use std::path::Path;

use kollect_collect::ScrubKeys;

/// A17: measured on a list of names from the wild; `docs/profiles.md` shows the figures.
#[test]
fn a17_names_are_recognised_with_measured_precision_and_recall() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/redact/names.csv");
    let text = std::fs::read_to_string(path).expect("the list of names");
    let keys = ScrubKeys::default();
    let (mut hits, mut misses, mut false_alarms, mut rest) = (vec![], vec![], vec![], vec![]);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, verdict) = line.split_once(',').expect("name,verdict");
        let is_secret = match verdict {
            "secret" => true,
            "plain" => false,
            other => panic!("{name}: {other}"),
        };
        match (is_secret, keys.matches(name)) {
            (true, true) => hits.push(name),
            (true, false) => misses.push(name),
            (false, true) => false_alarms.push(name),
            (false, false) => rest.push(name),
        }
    }
    let share = |part: usize, other: usize| 1000 * part / (part + other);
    let precision = share(hits.len(), false_alarms.len());
    let recall = share(hits.len(), misses.len());
    println!(
        "{} names: precision {precision}, recall {recall} of 1000",
        hits.len() + misses.len() + false_alarms.len() + rest.len()
    );
    println!("missed: {misses:?}\nfalse alarms: {false_alarms:?}");
    assert!(hits.len() + misses.len() >= 100 && rest.len() >= 100);
    assert!(precision >= 980, "{precision}: {false_alarms:?}");
    assert!(recall >= 980, "{recall}: {misses:?}");
}

/// A17: the names that were found to leak, and those that must stay whatever is added.
#[test]
fn a17_the_names_of_the_finding() {
    let keys = ScrubKeys::default();
    for name in [
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASS",
        "DB_PWD",
        "PGPASS",
        "PASSPHRASE",
        "AUTHORIZATION",
        "BEARER",
        "JWT",
        "DSN",
        "DATABASE_URL",
        "GITHUB_PAT",
        "SIGNING_KEY",
        "ENCRYPTION_KEY",
        "AZURE_STORAGE_KEY",
        "tls.key",
        "id_rsa",
        ".pgpass",
        ".dockerconfigjson",
        "kubeconfig",
    ] {
        assert!(keys.matches(name), "{name}");
    }
    for name in ["TOKEN_TTL", "passThrough", "keyboard", "author", "secretName"] {
        assert!(!keys.matches(name), "{name}");
    }
}
