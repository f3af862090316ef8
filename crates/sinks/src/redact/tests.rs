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
        "Redaction { values: 2, names: 1 }"
    );
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
