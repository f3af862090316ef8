//! URLs, read the way Kubernetes reads them: absolute, or an absolute path.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::super::error::EvalError;
use super::super::eval::map_of;
use super::super::kind::{Kind, Kinds};
use super::super::limits::Budget;
use super::super::value::Val;
use super::opaque::Opaque;
use super::params::STRING;
use super::{Function, Ret, function, method, text};

const URL: Kinds = Kinds::of(&[Kind::Url]);
const TO_TEXT: Ret = Ret::Is(Kind::String);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("url", &[STRING], Ret::Is(Kind::Url), |budget, args| {
        budget.build(2 * text(args, 0).len())?;
        match Url::parse(text(args, 0)) {
            Some(url) => Ok(Val::Opaque(Arc::new(Opaque::Url(url)))),
            None => Err(EvalError::argument(
                "url",
                "not an absolute URL or an absolute path",
            )),
        }
    }),
    function("isURL", &[STRING], Ret::Is(Kind::Bool), |budget, args| {
        budget.charge_text(text(args, 0).len())?;
        Ok(Val::Bool(Url::parse(text(args, 0)).is_some()))
    }),
    method("getScheme", &[URL], TO_TEXT, |_, args| {
        Ok(part(&args[0], |url| url.scheme.clone()))
    }),
    method("getHost", &[URL], TO_TEXT, |_, args| {
        Ok(part(&args[0], |url| url.host.clone()))
    }),
    method("getHostname", &[URL], TO_TEXT, |_, args| {
        Ok(part(&args[0], |url| split_port(&url.host).0.to_owned()))
    }),
    method("getPort", &[URL], TO_TEXT, |_, args| {
        Ok(part(&args[0], |url| split_port(&url.host).1.to_owned()))
    }),
    method("getEscapedPath", &[URL], TO_TEXT, |_, args| {
        Ok(part(&args[0], Url::escaped_path))
    }),
    method("getQuery", &[URL], Ret::Is(Kind::Map), query),
];

fn url<'v>(value: &'v Val<'_>) -> Option<&'v Url> {
    match value {
        Val::Opaque(opaque) => match &**opaque {
            Opaque::Url(url) => Some(url),
            _ => None,
        },
        _ => None,
    }
}

fn part<'a>(value: &Val<'a>, part: fn(&Url) -> String) -> Val<'a> {
    Val::text(url(value).map(part).unwrap_or_default())
}

/// The query as a map from name to values, decoded. Pairs that cannot be decoded are left out.
fn query<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let query = url(&args[0]).map_or("", |url| &url.query);
    budget.build(query.len())?;
    let mut names: Vec<(String, Vec<Val<'a>>)> = Vec::new();
    for pair in query.split('&') {
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| unescape(&text.replace('+', " ")).map(Cow::into_owned);
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            continue;
        };
        budget.build_items(2)?;
        budget.charge_items(names.len())?;
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(Val::text(value)),
            None => names.push((name, vec![Val::text(value)])),
        }
    }
    let entries = names
        .into_iter()
        .map(|(name, values)| (Val::text(name), Val::list(values)));
    map_of(budget, entries.collect())
}

/// A URL in its parts.
#[derive(Debug)]
pub(in super::super) struct Url {
    text: Box<str>,
    scheme: String,
    host: String,
    /// As written.
    path: String,
    query: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Option<Url> {
        if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return None;
        }
        let (scheme, rest) = split_scheme(text)?;
        // A fragment is no part of a request; the rest is checked with it and kept without.
        let (without_fragment, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        unescape(fragment)?;
        let (rest, query) = without_fragment
            .split_once('?')
            .unwrap_or((without_fragment, ""));
        let mut url = Url {
            text: text.into(),
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            // `mailto:someone` has no path; a relative path is refused.
            return (!scheme.is_empty() || rest == "*").then_some(url);
        }
        let path = match rest.strip_prefix("//") {
            // Without a scheme three slashes are a path with empty names.
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                let end = rest.find('/').unwrap_or(rest.len());
                url.host = parse_authority(&rest[..end])?;
                &rest[end..]
            }
            _ => rest,
        };
        unescape(path)?;
        path.clone_into(&mut url.path);
        Some(url)
    }

    pub(in super::super) fn text(&self) -> &str {
        &self.text
    }

    /// The path with everything escaped that must be.
    fn escaped_path(&self) -> String {
        let mut bytes = self.path.bytes();
        if bytes.all(|byte| byte == b'%' || is_path_byte(byte)) {
            return self.path.clone();
        }
        let plain = unescape_bytes(&self.path).unwrap_or_default();
        percent_encode(&plain, ESCAPED_IN_PATHS).to_string()
    }
}

/// Scheme and rest. Nothing if there is a colon where a scheme should be.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Some((&text[..at], &text[at + 1..])),
            b':' => return None,
            _ => break,
        }
    }
    Some(("", text))
}

/// The host of `user@host:port`, with its port.
fn parse_authority(text: &str) -> Option<String> {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    let user_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(user_byte) {
        return None;
    }
    unescape(user)?;
    let port = match host.strip_prefix('[') {
        Some(rest) => rest.rsplit_once(']')?.1,
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !(port.is_empty() || port.strip_prefix(':').is_some_and(digits)) {
        return None;
    }
    let host_byte = |byte: u8| {
        byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
    };
    if !host.bytes().all(host_byte) {
        return None;
    }
    let plain = unescape(host)?;
    // Only bytes outside of ASCII may be escaped in a host.
    let escapes_ascii = host.match_indices('%').any(|(at, _)| {
        host.as_bytes()
            .get(at + 1)
            .is_some_and(|digit| *digit < b'8')
    });
    (!escapes_ascii).then(|| plain.into_owned())
}

/// Host name and port of a host. Brackets around an IPv6 address are taken off.
fn split_port(host: &str) -> (&str, &str) {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
        _ => (host, ""),
    };
    match name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
    {
        Some(inner) => (inner, port),
        None => (name, port),
    }
}

/// What is escaped when a path is written; and everything outside of ASCII.
const ESCAPED_IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Bytes that may stand unescaped in a path, though some would be written escaped.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]".contains(&byte)
}

/// The text with `%41` decoded; nothing if an escape is broken or the result is no text.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = unescape_bytes(text)?;
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

fn unescape_bytes(text: &str) -> Option<Vec<u8>> {
    let plain: Vec<u8> = percent_decode_str(text).collect();
    // The decoder leaves a broken escape as it is; then fewer bytes are gone than there are signs.
    let escapes = text.matches('%').count();
    (plain.len() + 2 * escapes == text.len()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_where_they_must_be() {
        for (path, escaped) in [
            ("/a+b/~c;d=e@f,g:h&i$j_k-l.m", "/a+b/~c;d=e@f,g:h&i$j_k-l.m"),
            ("/(a)!*[b]'", "/(a)!*[b]'"),
            ("/(a) b", "/%28a%29%20b"),
            ("/%ff \u{e4}%7f", "/%FF%20%C3%A4%7F"),
            ("/%25 \"<>", "/%25%20%22%3C%3E"),
        ] {
            let url = Url::parse(path).unwrap_or_else(|| panic!("{path} is refused"));
            assert_eq!(url.escaped_path(), escaped, "{path}");
        }
    }

    #[test]
    fn broken_escapes_are_refused_and_plus_signs_kept() {
        for path in ["/%", "/%4", "/%zz", "/%4z", "/%+4", "/%%41", "/%\u{e4}"] {
            assert!(Url::parse(path).is_none(), "{path}");
        }
        for (text, plain) in [
            ("a+b", "a+b"),
            ("%2b%2B", "++"),
            ("%25zz", "%zz"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(unescape(text).as_deref(), Some(plain), "{text}");
        }
    }
}
