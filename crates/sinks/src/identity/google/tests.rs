//! Keys are read, statements are signed so that their public half confirms it, and refusals have
//! their class. The exchange with a token service is part of the tests of the sinks that use it.

use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};

use super::*;

/// Made for these tests; it opens nothing.
const KEY: &str = include_str!("../../../tests/data/google/key.pem");

fn file(change: impl FnOnce(&mut Value)) -> String {
    let mut file = json!({
        "type": "service_account",
        "client_email": "kollect@acme.iam.gserviceaccount.com",
        "private_key_id": "1234",
        "private_key": KEY,
        "token_uri": "https://oauth2.googleapis.com/token",
    });
    change(&mut file);
    file.to_string()
}

#[test]
fn keys_are_read_or_refused_without_their_content() {
    let set = |key: &'static str, value: Value| file(move |file| file[key] = value);
    for (text, plain, expected) in [
        (file(|_| {}), false, Ok(())),
        (set("token_uri", Value::Null), false, Ok(())),
        (set("private_key_id", Value::Null), false, Ok(())),
        (
            set("token_uri", json!("http://127.0.0.1/token")),
            true,
            Ok(()),
        ),
        (
            set("token_uri", json!("http://127.0.0.1/token")),
            false,
            Err(KeyError::Address),
        ),
        (
            set("token_uri", json!("ftp://h/t")),
            true,
            Err(KeyError::Address),
        ),
        (
            set("type", json!("authorized_user")),
            false,
            Err(KeyError::Kind),
        ),
        (
            set("client_email", json!(" ")),
            false,
            Err(KeyError::Account),
        ),
        (
            set("private_key", json!("not PEM")),
            false,
            Err(KeyError::Key),
        ),
        ("{".to_owned(), false, Err(KeyError::Json)),
        ("[]".to_owned(), false, Err(KeyError::Json)),
    ] {
        let read = ServiceAccountKey::parse(&text, plain);
        assert_eq!(read.map(drop), expected);
    }
}

#[test]
fn a_statement_is_signed_and_ends() {
    let key = ServiceAccountKey::parse(&file(|_| {}), false).unwrap();
    let now: Timestamp = "2026-01-15T12:00:00Z".parse().unwrap();
    let statement = key.statement("scope-1", now).unwrap();
    let (signed, signature) = statement.rsplit_once('.').unwrap();
    let parts: Vec<Value> = signed
        .split('.')
        .map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap())
        .map(|part| serde_json::from_slice(&part).unwrap())
        .collect();
    assert_eq!(
        parts[0],
        json!({"alg": "RS256", "typ": "JWT", "kid": "1234"})
    );
    assert_eq!(
        parts[1],
        json!({
            "iss": "kollect@acme.iam.gserviceaccount.com",
            "scope": "scope-1",
            "aud": "https://oauth2.googleapis.com/token",
            "iat": 1_768_478_400,
            "exp": 1_768_482_000,
        })
    );
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.pair.public_key());
    public.verify(signed.as_bytes(), &signature).unwrap();
    assert!(public.verify(b"something else", &signature).is_err());
}

#[test]
fn a_token_is_used_for_less_than_its_life() {
    for (expires_in, seconds) in [
        (Some(3599), 3299),
        (None, 3300),
        (Some(600), 300),
        (Some(60), 30),
        (Some(0), 0),
        (Some(u64::MAX), 3300),
    ] {
        assert_eq!(lasting(expires_in).as_secs(), seconds, "{expires_in:?}");
    }
    assert!(is_token("ya29.a-b_c"));
    for text in ["", "a b", "a\r\nx: y", "ü"] {
        assert!(!is_token(text), "{text:?}");
    }
}

#[test]
fn refusals_have_their_class_and_repeat_nothing() {
    let account = "kollect@acme.iam.gserviceaccount.com";
    for (status, word, terminal) in [
        (400, "invalid_grant", true),
        (401, "invalid_client", true),
        (403, "access_denied", true),
        (404, "", true),
        (429, "slow_down", false),
        (500, "internal", false),
        (400, account, true),
    ] {
        let body = json!({"error": word, "error_description": format!("no {account}")});
        let status = StatusCode::from_u16(status).unwrap();
        let error = refused(status, body.to_string().as_bytes());
        assert_eq!(matches!(error, SinkError::Terminal(_)), terminal, "{error}");
        assert!(!error.message().contains(account), "{error}");
    }
}
