//! How well sensitive names are recognised.

use std::path::Path;

use kollect_collect::ScrubKeys;

/// Figures of one list of names.
struct Measured {
    hits: usize,
    misses: Vec<String>,
    false_alarms: Vec<String>,
    rest: usize,
}

impl Measured {
    fn on(list: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/redact");
        let text = std::fs::read_to_string(directory.join(list)).expect("the list of names");
        let keys = ScrubKeys::default();
        let mut measured = Measured {
            hits: 0,
            misses: Vec::new(),
            false_alarms: Vec::new(),
            rest: 0,
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, verdict) = line.split_once(',').expect("name,verdict");
            let is_secret = match verdict {
                "secret" => true,
                "plain" => false,
                other => panic!("{name}: {other}"),
            };
            match (is_secret, keys.matches(name)) {
                (true, true) => measured.hits += 1,
                (true, false) => measured.misses.push(name.to_owned()),
                (false, true) => measured.false_alarms.push(name.to_owned()),
                (false, false) => measured.rest += 1,
            }
        }
        println!(
            "{list}: {} names, precision {} ‰, recall {} ‰\nmissed: {:?}\nfalse alarms: {:?}",
            measured.secrets() + measured.plain(),
            measured.precision(),
            measured.recall(),
            measured.misses,
            measured.false_alarms
        );
        measured
    }

    fn secrets(&self) -> usize {
        self.hits + self.misses.len()
    }

    fn plain(&self) -> usize {
        self.rest + self.false_alarms.len()
    }

    /// How many of a thousand names that are taken for secrets are some.
    fn precision(&self) -> usize {
        1000 * self.hits / (self.hits + self.false_alarms.len())
    }

    /// How many of a thousand names of secrets are taken for some.
    fn recall(&self) -> usize {
        1000 * self.hits / self.secrets()
    }
}

/// A17: the names that the rules were made for; `docs/profiles.md` shows the figures.
#[test]
fn a17_names_are_recognised_with_measured_precision_and_recall() {
    let measured = Measured::on("names.csv");
    assert!(measured.secrets() >= 150 && measured.plain() >= 150);
    assert!(measured.precision() >= 990, "{:?}", measured.false_alarms);
    assert!(measured.recall() >= 990, "{:?}", measured.misses);
}

/// A17: names that the rules were not made for.
#[test]
fn a17_names_that_nobody_thought_of_are_mostly_recognised() {
    let measured = Measured::on("names-unseen.csv");
    assert!(measured.secrets() >= 80 && measured.plain() >= 80);
    assert!(measured.precision() >= 900, "{:?}", measured.false_alarms);
    assert!(measured.recall() >= 850, "{:?}", measured.misses);
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
    for name in [
        "TOKEN_TTL",
        "passThrough",
        "keyboard",
        "author",
        "secretName",
    ] {
        assert!(!keys.matches(name), "{name}");
    }
}
