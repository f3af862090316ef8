//! `AdmissionReview` v1: read a request, write an answer.

use std::collections::BTreeMap;

use kollect_api::meta;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{hooks::Hook, judge::Judgement};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Texts of an answer are not longer: everything in them may come from the object, and whoever
/// wrote that decides how long it is.
const LONGEST_TEXT: usize = 16 * 1024;
/// The API server cuts warnings that are longer, and all of them together.
const LONGEST_WARNING: usize = 1024;
const MOST_WARNINGS: usize = 64;

/// A body is not an admission review that can be answered at this path.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// It is no JSON, or has another shape.
    #[error("the body is no {API_VERSION} {KIND}: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is another version, or something else.
    #[error("the body is {api_version:?} {kind:?}; this webhook answers {API_VERSION} {KIND} only")]
    Version {
        /// What it says of its version.
        api_version: String,
        /// What it says of its kind.
        kind: String,
    },
    /// It holds no request.
    #[error("the {KIND} holds no request")]
    Empty,
}

/// What the API server asks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// Names the question; the answer repeats it.
    pub uid: String,
    /// The kind of the object.
    pub kind: Kind,
    /// Not empty for a part of an object, such as `status`.
    pub sub_resource: String,
    /// Its name, empty while one is being made up.
    pub name: String,
    /// Its namespace, empty for cluster kinds.
    pub namespace: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// Who asks.
    pub user_info: User,
    /// The object as it would be.
    pub object: Option<Value>,
    /// The object as it is.
    pub old_object: Option<Value>,
}

/// Group, version and kind as requests have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Kind {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The name that roles are bound to.
    pub username: String,
    /// An identifier that is never used again.
    pub uid: String,
    /// Groups that roles may be bound to.
    pub groups: Vec<String>,
    /// What else authorisers look at.
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

impl Request {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Result<Self, ReviewError> {
        let review: Review = serde_json::from_slice(body)?;
        if (&*review.api_version, &*review.kind) != (API_VERSION, KIND) {
            return Err(ReviewError::Version {
                api_version: cut(review.api_version, 64),
                kind: cut(review.kind, 64),
            });
        }
        review.request.ok_or(ReviewError::Empty)
    }

    /// Why this cannot be a question for the webhook, if so.
    pub fn misdirected(&self, hook: &Hook) -> Option<String> {
        let Kind {
            group,
            version,
            kind,
        } = &self.kind;
        let here = (&**group, &**version, &**kind) == (meta::GROUP, meta::VERSION, hook.kind);
        (!here).then(|| {
            format!(
                "{} answers for {} {} only, not for {:?}; check the rules of the \
                 ValidatingWebhookConfiguration",
                hook.path(),
                meta::API_VERSION,
                hook.kind,
                cut(format!("{group}/{version} {kind}"), 256),
            )
        })
    }
}

/// The answer to a request.
pub fn answer(uid: &str, judgement: &Judgement) -> Value {
    let mut response = Map::new();
    response.insert("uid".to_owned(), uid.into());
    response.insert("allowed".to_owned(), judgement.denied.is_none().into());
    match &judgement.denied {
        Some(denied) => {
            let status = json!({
                "code": denied.code(),
                "reason": denied.reason(),
                "message": cut(denied.to_string(), LONGEST_TEXT),
            });
            response.insert("status".to_owned(), status);
        }
        None if judgement.warnings.is_empty() => {}
        None => {
            let warnings = judgement.warnings.iter().take(MOST_WARNINGS);
            let warnings = warnings.map(|text| cut(text.clone(), LONGEST_WARNING));
            response.insert("warnings".to_owned(), warnings.collect::<Vec<_>>().into());
        }
    }
    json!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
}

/// The uid of a request from the beginning of its body, for bodies that are too long to be read.
/// API servers write it first.
pub fn uid_of(beginning: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(beginning);
    let (_, request) = text.split_once("\"request\"")?;
    let (_, uid) = request.split_once("\"uid\"")?;
    let uid = uid.trim_start().strip_prefix(':')?.trim_start();
    let (uid, _) = uid.strip_prefix('"')?.split_once('"')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (!uid.is_empty() && uid.len() <= 64 && uid.bytes().all(plain)).then(|| uid.to_owned())
}

/// The beginning of a text that is too long.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut at = most;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Denied;

    fn body(api_version: &str, request: &Value) -> Vec<u8> {
        let review = json!({"apiVersion": api_version, "kind": KIND, "request": request});
        review.to_string().into_bytes()
    }

    #[test]
    fn what_is_no_review_is_said_to_be_none() {
        for (body, says) in [
            (&b""[..], "no admission.k8s.io/v1"),
            (b"garbage", "no admission.k8s.io/v1"),
            (b"\xff\xfe", "no admission.k8s.io/v1"),
            (b"[]", "no admission.k8s.io/v1"),
            (b"{}", "answers admission.k8s.io/v1"),
            (&body("admission.k8s.io/v1beta1", &json!({})), "v1beta1"),
            (&body(API_VERSION, &Value::Null), "no request"),
            (
                &body(API_VERSION, &json!({"uid": 7})),
                "no admission.k8s.io/v1",
            ),
        ] {
            let error = Request::read(body).expect_err("refused").to_string();
            assert!(error.contains(says), "{error}");
        }
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Request::read(deep.as_bytes()).is_err(), "no endless depth");
    }

    #[test]
    fn requests_belong_to_the_webhook_of_their_kind() {
        let hook = Hook::at("/validate-kollect-dev-v1alpha1-kollecttarget").expect("a hook");
        for (group, version, kind, here) in [
            ("kollect.dev", "v1alpha1", "KollectTarget", true),
            ("kollect.dev", "v1alpha1", "KollectProfile", false),
            ("kollect.dev", "v2", "KollectTarget", false),
            ("apps", "v1", "Deployment", false),
            ("", "", "", false),
        ] {
            let asked =
                json!({"uid": "1", "kind": {"group": group, "version": version, "kind": kind}});
            let request = Request::read(&body(API_VERSION, &asked)).expect("a request");
            assert_eq!(
                request.misdirected(hook).is_none(),
                here,
                "{group} {version} {kind}"
            );
        }
    }

    #[test]
    fn answers_have_the_form_that_the_api_server_wants() {
        let allowed = Judgement {
            denied: None,
            warnings: vec!["careful".to_owned()],
        };
        let expected = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "response": {"uid": "u", "allowed": true, "warnings": ["careful"]},
        });
        assert_eq!(answer("u", &allowed), expected);
        let denied = Judgement {
            denied: Some(Denied::Malformed("no".to_owned())),
            warnings: vec!["nobody hears this".to_owned()],
        };
        let expected = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "response": {
                "uid": "u", "allowed": false,
                "status": {"code": 400, "reason": "BadRequest", "message": "no"},
            },
        });
        assert_eq!(answer("u", &denied), expected);
    }

    #[test]
    fn texts_of_answers_have_a_limit() {
        let denied = Judgement {
            denied: Some(Denied::Malformed("ä".repeat(1 << 20))),
            warnings: Vec::new(),
        };
        let answer = answer("u", &denied);
        let text = answer["response"]["status"]["message"]
            .as_str()
            .expect("a text");
        assert!(text.len() < LONGEST_TEXT + 8 && text.ends_with('…'));
    }

    #[test]
    fn the_uid_is_found_in_the_beginning_of_a_body() {
        let whole = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5-6393","kind":{"#;
        assert_eq!(uid_of(whole.as_bytes()).as_deref(), Some("705ab4f5-6393"));
        let spaced = "{\n \"request\" : { \"uid\" : \"a-1\" ,";
        assert_eq!(uid_of(spaced.as_bytes()).as_deref(), Some("a-1"));
        for text in [
            "",
            "{\"request\":{\"uid\":7",
            "{\"uid\":\"1\"}",
            "{\"request\":{\"uid\":\"\"",
            "{\"request\":{\"uid\":\"a b\"",
            "{\"request\":{\"uid\":\"never ends",
        ] {
            assert_eq!(uid_of(text.as_bytes()), None, "{text}");
        }
    }
}
