//! Pieces of CRD schema that several kinds share, so that each pattern and rule is written once.

use serde_json::{Value, json};

/// A DNS-1123 label: the form of a namespace name.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Text with something else than blanks in it.
pub const NOT_BLANK: &str = r"\S";
/// The plain name of an object: not blank and no `namespace/name` form.
pub const PLAIN_NAME: &str = r"^[^/]*[^/\s][^/]*$";
/// Anything without a slash, the empty text included.
pub const NO_SLASH: &str = "^[^/]*$";
/// An attribute path starts like one of the languages; everything else would be a plain text.
pub const ATTRIBUTE_PATH: &str = r"^\s*(cel:|helm:release\.|\$|\{|\.)";
/// RFC 6901, blanks around it allowed.
pub const JSON_POINTER: &str = r"^\s*/([^~]|~[01])*$";
/// What Prometheus takes as a metric or label name.
pub const METRIC_NAME: &str = "^[a-zA-Z_][a-zA-Z0-9_]*$";
/// Printable text: attribute names end up as column names, file names and label values.
pub const PRINTABLE: &str = r"^[^\x00-\x1f\x7f]+$";
/// A git branch as far as a pattern can tell; blanks around it are ignored, blank means unset.
pub const GIT_BRANCH: &str = r"^\s*([A-Za-z0-9][A-Za-z0-9._/-]*)?\s*$";
/// A literal NATS subject: words with dots between them, no wildcards. Those that begin with a dollar
/// sign belong to the server.
pub const NATS_SUBJECT: &str = r"^\s*[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*\s*$";
/// The name of a NATS stream; dots are replaced, blank means unset.
pub const NATS_STREAM: &str = r"^\s*[A-Za-z0-9_.-]*\s*$";
/// The form of a condition type.
pub const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// The form of a condition reason.
pub const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A namespace name, or blank for none.
pub const DNS_LABEL_OR_BLANK: &str = r"^(\s*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$";

/// The part of the template rules that the API server can check by itself.
pub(crate) const RELATIVE_PATH: (&str, &str) = (
    "!self.contains('..') && !self.trim().startsWith('/')",
    "must be a relative path without '..'",
);
/// Inventories that share a destination must not share a document.
pub(crate) const DOCUMENT_PATH: (&str, &str) = (
    "self.trim() == '' || (self.contains('{namespace}') && self.contains('{name}'))",
    "must contain {namespace} and {name}, so that inventories do not overwrite each other",
);
/// Rows of an inventory must not share a file.
pub(crate) const ROW_PATH: (&str, &str) = (
    "self.trim() == '' || self.contains('{sourceName}') || self.contains('{name}') || self.contains('{uid}')",
    "must contain {sourceName}, {name} or {uid}, so that rows do not overwrite each other",
);

/// The most sink references one inventory may have, over all three families.
pub const MAX_SINK_REFS: usize = 20;

/// `x-kubernetes-validations` from (rule, message) pairs.
pub(crate) fn rules(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(rule, message)| json!({"rule": rule, "message": message}))
        .collect()
}

/// Items of a list of namespace names.
pub(crate) fn namespace_names(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 63, "pattern": DNS_LABEL},
    })
}

/// A list of namespace names that names at least one.
pub(crate) fn namespace_names_given(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 1024,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 63, "pattern": DNS_LABEL},
    })
}

/// Items of a list of object names, without repetition.
pub(crate) fn name_set(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 253, "pattern": PLAIN_NAME},
    })
}

/// Standard base64 text, at most 64 KiB of content.
pub(crate) fn pem_bytes(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "byte", "maxLength": 87_384})
}

/// Whether a flag has its absent value; such flags are not written.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}
