use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

use super::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    #[serde(default)]
    secret: BTreeMap<String, String>,
    text: String,
    clean: String,
}

#[test]
fn texts_are_cleaned() {
    let vectors: Vec<Vector> = serde_saphyr::from_str(include_str!("vectors.yaml")).unwrap();
    for vector in vectors {
        let secret: SecretData = vector.secret.into_iter().collect();
        let redaction = Redaction::of_secrets([&secret]);
        assert_eq!(redaction.clean(&vector.text), vector.clean, "{}", vector.id);
    }
}

#[test]
fn errors_keep_their_class_and_debug_keeps_silent() {
    let redaction = Redaction::new(["hunter22".into()])
        .and(["other1".into()])
        .and_names(["db".into()]);
    let error = SinkError::Forbidden("hunter22, other1 and db".to_owned());
    assert_eq!(
        redaction.clean_error(error),
        SinkError::Forbidden("[redacted], [redacted] and [redacted]".to_owned())
    );
    assert_eq!(
        format!("{redaction:?}"),
        "Redaction { values: 2, names: 1, .. }"
    );
}

/// A Secret of a megabyte took eleven seconds; a text of twenty, a gigabyte and a half.
#[test]
fn a6_cleaning_is_linear_and_bounded() {
    let began = std::time::Instant::now();
    let lines = |count: usize| -> String {
        let lines: Vec<_> = (0..count).map(|n| format!("line-{n:011}")).collect();
        lines.join("\n")
    };
    let megabyte = lines(60_000);
    let hosts: Vec<_> = (0..100_000).map(|n| format!("host{n}")).collect();
    let hosts = format!("postgres://u:p@{}/d", hosts.join(","));
    for value in [&megabyte, &hosts] {
        let secret: SecretData = [("key", value.as_str())].into_iter().collect();
        let redaction = Redaction::of_secrets([&secret]);
        let clean = redaction.clean("no such line-00000000007");
        assert_eq!(clean, WITHHELD, "too much to search for");
    }
    let some = lines(3_000);
    let secret: SecretData = [("key", some.as_str())].into_iter().collect();
    let redaction = Redaction::of_secrets([&secret]);
    assert_eq!(redaction.clean("see line-00000002999."), "see [redacted].");
    let long = "%41\\line-00000000007 ".repeat(1_000_000);
    let clean = redaction.clean(&long);
    assert!(clean.len() <= LONGEST_SHOWN && clean.ends_with('…'));
    assert!(!clean.contains("00000007"));
    // A value of which every beginning is a value too.
    let nested: SecretData = (3..500).map(|n| (format!("k{n}"), "a".repeat(n))).collect();
    let redaction = Redaction::of_secrets([&nested]);
    let clean = redaction.clean(&"a".repeat(1 << 20));
    assert_eq!(clean, format!("{REMOVED}…"));
    // Generous: a debug build on a busy machine. Before, it was minutes.
    assert!(began.elapsed() < std::time::Duration::from_mins(1));
}

/// The cut goes through a secret: none of it stays.
#[test]
fn a6_a_cut_leaves_no_half_of_a_secret() {
    let secret = "s3cret-".repeat(200);
    let redaction = Redaction::new([secret.as_str().into()]);
    for spelling in [secret.clone(), percent_encoded(&secret, true)] {
        for before in [LONGEST_SHOWN - 700, LONGEST_SHOWN - 3, LONGEST_READ - 5] {
            let text = format!("{} {spelling} after", "x ".repeat(before / 2));
            let clean = redaction.clean(&text);
            assert!(!clean.contains("s3c") && !clean.contains("%73"), "{before}");
        }
    }
}

#[test]
fn certificates_are_public_and_keys_are_not() {
    let certificate =
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUabcdefgh\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEG\n-----END PRIVATE KEY-----\n";
    let secret: SecretData = [
        ("ca.crt", certificate.to_owned()),
        ("both.pem", format!("{certificate}{key}")),
    ]
    .into_iter()
    .collect();
    let redaction = Redaction::of_secrets([&secret]);
    assert_eq!(redaction.clean("MIGHAgEAMBMGByqGSM49AgEG"), REMOVED);
    let secret: SecretData = [("ca.crt", certificate)].into_iter().collect();
    let redaction = Redaction::of_secrets([&secret]);
    assert_eq!(redaction.clean(certificate), certificate);
}

fn percent_encoded(text: &str, every: bool) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' if !every => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// The ways in which a secret gets into a text.
fn spellings(secret: &str, neighbour: &str) -> Vec<String> {
    let token = format!("{neighbour}:{secret}");
    vec![
        secret.to_owned(),
        percent_encoded(secret, false),
        percent_encoded(secret, true).to_lowercase(),
        percent_encoded(&percent_encoded(secret, false), false),
        format!("{secret:?}"),
        serde_json::to_string(secret).unwrap(),
        BASE64_STANDARD.encode(secret),
        BASE64_URL_SAFE_NO_PAD.encode(secret),
        BASE64_STANDARD.encode(&token),
        BASE64_URL_SAFE_NO_PAD.encode(format!("{token}{neighbour}")),
        percent_encoded(&BASE64_STANDARD.encode(&token), false),
        format!("postgres://{neighbour}:{secret}@h/d"),
    ]
}

/// What of the cleaned text came out of the original.
fn kept(clean: &str) -> impl Iterator<Item = &str> {
    clean.split(REMOVED)
}

proptest! {
    /// No secret survives, in no spelling. Secrets of three bytes and more are promised.
    #[test]
    fn no_secret_survives(
        secrets in prop::collection::vec("\\PC{3,24}|[a-zA-Z0-9]{3,40}|[ -~]{3,20}", 1..4),
        neighbour in "[a-z]{0,5}",
        before in "\\PC{0,12}",
        after in "\\PC{0,12}",
    ) {
        let redaction = Redaction::new(secrets.iter().map(|secret| secret.as_str().into()));
        for secret in &secrets {
            for spelling in spellings(secret, &neighbour) {
                let clean = redaction.clean(&format!("{before} {spelling} {after}"));
                for piece in kept(&clean) {
                    prop_assert!(!piece.contains(secret.as_str()), "{spelling:?} left {clean:?}");
                }
                prop_assert!(clean.contains(REMOVED), "{spelling:?} left {clean:?}");
                let bare = spelling.trim_matches('"');
                // What the surroundings say anyway is no leak.
                if !before.contains(bare) && !after.contains(bare) {
                    prop_assert!(
                        !kept(&clean).any(|piece| piece.contains(bare)),
                        "{spelling:?} left {clean:?}"
                    );
                }
            }
        }
    }

    /// A text without secrets stays as it is, and cleaning never panics.
    #[test]
    fn other_texts_stay(text in "\\PC{0,200}", odd in "([%\\\\+=/a-fu{}0-9]|\\PC){0,60}") {
        let redaction = Redaction::new(["\u{1}\u{2}\u{3}".into()]);
        if !text.contains("://") {
            prop_assert_eq!(redaction.clean(&text), text);
        }
        redaction.clean(&odd);
    }
}
