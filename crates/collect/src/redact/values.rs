//! Which texts are secrets whatever they are called.
//!
//! Formats that mean one thing: private keys in PEM, signed tokens, the tokens and key ids of
//! well-known services, and URLs with a password. Everything is decided by a look at the beginning
//! or at a few marks, because every text of every row comes through here.

/// Shorter than this is none of the formats.
const SHORTEST: usize = 16;

/// Beginnings of tokens, with the least number of characters of the kind that follow.
const PREFIXES: [(&str, usize); 24] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("SG.", 40),
    ("dckr_pat_", 20),
    ("dop_v1_", 40),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("ghr_", 30),
    ("github_pat_", 30),
    ("glpat-", 16),
    ("gldt-", 16),
    ("hvb.", 40),
    ("hvs.", 20),
    ("npm_", 30),
    ("pypi-", 40),
    ("rk_live_", 16),
    ("sk_live_", 16),
    ("xoxa-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("ya29.", 30),
];

/// By the first letter of [`PREFIXES`], their second letters as bits.
static BEGINNINGS: [u128; 128] = {
    let (mut letters, mut at) = ([0; 128], 0);
    while at < PREFIXES.len() {
        let prefix = PREFIXES[at].0.as_bytes();
        letters[prefix[0] as usize] |= 1 << prefix[1];
        at += 1;
    }
    letters
};

/// Whether a text has the form of a secret.
pub(super) fn is_secret(text: &str) -> bool {
    text.len() >= SHORTEST
        && (is_token(text.trim_ascii()) || has_password_in_url(text) || has_private_key(text))
}

fn is_token_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=' | b'+' | b'/')
}

/// A token and nothing else, with or without the word in front of it that headers have.
fn is_token(text: &str) -> bool {
    let text = text.strip_prefix("Bearer ").unwrap_or(text);
    let &[first, second, ..] = text.as_bytes() else {
        return false;
    };
    if [first, second] == *b"ey" {
        return is_signed(text);
    }
    // Two letters settle nearly all texts.
    let seconds = BEGINNINGS.get(usize::from(first)).copied();
    if !second.is_ascii() || seconds.unwrap_or_default() >> second & 1 == 0 {
        return false;
    }
    PREFIXES.iter().any(|(prefix, least)| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= *least && rest.bytes().all(is_token_character))
    })
}

/// `header.payload.signature` in base64, the header a JSON object: a JWT.
fn is_signed(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_part = |part: Option<&str>| {
        part.is_some_and(|part| {
            let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            part.len() >= 8 && part.bytes().all(is_base64)
        })
    };
    text.starts_with("eyJ")
        && is_part(parts.next())
        && is_part(parts.next())
        && is_part(parts.next())
        && parts.next().is_none()
}

/// `scheme://user:password@host` anywhere in the text.
fn has_password_in_url(text: &str) -> bool {
    if !text.contains('@') {
        return false;
    }
    text.match_indices("://").any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace();
        let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
        authority
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
            .is_some_and(|(_, password)| is_password(password))
    })
}

/// Not empty and not a place for one, such as `$(PASSWORD)` or `{{ password }}`.
fn is_password(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['$', '{', '<', '%', '*'])
}

fn has_private_key(text: &str) -> bool {
    const BEGIN: &str = "-----BEGIN ";
    text.len() >= 64
        && text.match_indices(BEGIN).any(|(at, _)| {
            let rest = &text[at + BEGIN.len()..];
            let label = rest.find("-----").map(|end| &rest[..end]);
            label.is_some_and(|label| label.len() <= 64 && label.ends_with("PRIVATE KEY"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a17_known_formats_of_secrets_are_recognised() {
        let pem = |label: &str| {
            let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(3);
            format!("# key\n-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
        };
        let signed = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxIn0x", "c2lnbmF0dXJl"].join(".");
        for text in [
            pem("PRIVATE KEY"),
            pem("RSA PRIVATE KEY"),
            pem("ENCRYPTED PRIVATE KEY"),
            pem("OPENSSH PRIVATE KEY"),
            signed.clone(),
            format!("Bearer {signed}"),
            format!("AKIA{}", "IOSFODNN7EXAMPLE"),
            format!("ghp_{}", "a".repeat(36)),
            format!("github_pat_{}", "a1B2".repeat(20)),
            format!("glpat-{}", "x".repeat(20)),
            format!("xoxb-{}", "1234567890-abcdefghij"),
            format!("sk_live_{}", "a".repeat(24)),
            "postgres://app:hunter2@db.example:5432/shop".to_owned(),
            "--dsn=amqp://guest:s3cret@mq/ --verbose".to_owned(),
            "url: \"redis://:p4ss@cache:6379\"".to_owned(),
        ] {
            assert!(is_secret(&text), "{text}");
        }
    }

    #[test]
    fn a17_what_only_looks_like_a_secret_stays() {
        for text in [
            "registry.example/team/web:1.2.3@sha256:0123456789abcdef",
            "https://example.com/path?mail=a@b.example",
            "https://user@example.com/",
            "https://user:$(PASSWORD)@example.com/",
            "https://user:{{ .Values.password }}@example.com/",
            "ssh://git@example.com:22/repo.git",
            "-----BEGIN CERTIFICATE-----MIIBszCCAVmgAwIBAgIUQ2V4YW1wbGUgb25seSBub3QgcmVhbA-----END",
            "-----BEGIN PUBLIC KEY----- MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEexampleexample",
            "eyJhbGciOiJIUzI1NiJ9",
            "AKIA is how key ids begin",
            "hello.world.this-is-text",
            "ghp_short",
            "contact: team@example.com, see https://example.com",
            "",
        ] {
            assert!(!is_secret(text), "{text}");
        }
    }
}
