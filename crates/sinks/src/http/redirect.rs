//! Where a redirect leads, and what may go along.

use http::{HeaderMap, HeaderName, Response, StatusCode, Uri, header, uri::Scheme};
use kollect_api::address;

use crate::error::SinkError;

/// Headers that say nothing about who asks. Others may be credentials under any name, such as
/// `PRIVATE-TOKEN`.
const HARMLESS: [HeaderName; 5] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::USER_AGENT,
    header::RANGE,
    HeaderName::from_static("git-protocol"),
];

/// The target of a redirect; none if the answer is no redirect.
pub(super) fn target<B>(from: &Uri, response: &Response<B>) -> Result<Option<Uri>, SinkError> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(header::LOCATION) else {
        return Ok(None);
    };
    if !redirects {
        return Ok(None);
    }
    let to = location
        .to_str()
        .ok()
        .and_then(|location| resolve(from, location))
        .ok_or_else(|| {
            SinkError::terminal(format!(
                "{:?} redirects to something that is no http or https URL",
                from.host().unwrap_or_default()
            ))
        })?;
    if is_https(from) && !is_https(&to) {
        return Err(SinkError::terminal(format!(
            "{:?} redirects from https to http; that is not followed",
            from.host().unwrap_or_default()
        )));
    }
    Ok(Some(to))
}

/// A `Location` relative to where it was found, without user information and fragment.
fn resolve(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.trim().split('#').next().unwrap_or_default();
    let scheme = from.scheme_str()?;
    let authority = from.authority()?.as_str();
    let absolute = if location.contains("://") && !location.starts_with(['/', '?', '.']) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') || location.is_empty() {
        format!("{scheme}://{authority}{}{location}", from.path())
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let uri: Uri = absolute.parse().ok()?;
    let host = uri.host().filter(|host| !host.is_empty())?;
    // Also refuses other schemes.
    port(&uri)?;
    let place = match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder()
        .scheme(uri.scheme()?.clone())
        .authority(place)
        .path_and_query(path)
        .build()
        .ok()
}

/// Whether the target is the same server, or the same host by https instead of http.
pub(super) fn keeps_credentials(from: &Uri, to: &Uri) -> bool {
    let host = |uri: &Uri| address::normalize(uri.host().unwrap_or_default());
    let upgrade =
        !is_https(from) && is_https(to) && port(from) == Some(80) && port(to) == Some(443);
    let same = is_https(from) == is_https(to) && port(from) == port(to);
    host(from) == host(to) && (same || upgrade)
}

/// Leaves only headers that no server needs to be trusted with.
pub(super) fn drop_credentials(headers: &mut HeaderMap) {
    let kept: HeaderMap = HARMLESS
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())))
        .collect();
    *headers = kept;
}

/// The port of an http or https URL; none for other schemes.
pub(super) fn port(uri: &Uri) -> Option<u16> {
    let default = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => 443,
        Some(scheme) if *scheme == Scheme::HTTP => 80,
        _ => return None,
    };
    Some(uri.port_u16().unwrap_or(default))
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_resolved() {
        let from: Uri = "https://h.example:8443/a/b?c=d".parse().unwrap();
        for (location, expected) in [
            ("https://other/x?y#z", Some("https://other/x?y")),
            ("https://user:pw@other:444/x", Some("https://other:444/x")),
            ("//other/x", Some("https://other/x")),
            ("/x?y", Some("https://h.example:8443/x?y")),
            ("x", Some("https://h.example:8443/a/x")),
            ("?y", Some("https://h.example:8443/a/b?y")),
            ("/x?u=http://z", Some("https://h.example:8443/x?u=http://z")),
            ("https://[::1]/x", Some("https://[::1]/x")),
            ("ftp://other/x", None),
            ("file:///etc/passwd", None),
            ("https://", None),
            ("https:// other/", None),
        ] {
            let expected = expected.map(|uri| uri.parse::<Uri>().unwrap());
            assert_eq!(resolve(&from, location), expected, "{location}");
        }
    }

    #[test]
    fn credentials_stay_with_their_server() {
        for (from, to, keeps) in [
            ("https://h/a", "https://H./b", true),
            ("https://h/a", "https://h:443/b", true),
            ("http://h/a", "https://h/b", true),
            ("http://h:8080/a", "https://h/b", false),
            ("https://h/a", "https://h:444/b", false),
            ("https://h/a", "https://other/a", false),
            ("https://h/a", "https://h.other/a", false),
        ] {
            let verdict = keeps_credentials(&from.parse().unwrap(), &to.parse().unwrap());
            assert_eq!(verdict, keeps, "{from} to {to}");
        }
        let mut headers = HeaderMap::new();
        for name in [
            "accept",
            "authorization",
            "cookie",
            "private-token",
            "git-protocol",
        ] {
            headers.insert(HeaderName::from_static(name), "x".parse().unwrap());
        }
        drop_credentials(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "git-protocol"]);
    }
}
