//! Where a bucket is.

use kollect_api::sink::SinkType;

use crate::error::SinkError;

/// The parts of `spec.endpoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// The server, as `https://host:port`; nothing means the cloud's own.
    pub(super) server: Option<String>,
    pub(super) bucket: String,
    /// What every key begins with, without a slash at its ends; may be empty.
    pub(super) prefix: String,
}

impl Address {
    /// Reads `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`,
    /// `https://host:port/bucket/prefix` or `bucket/prefix`. Where the path of a server begins with
    /// the storage account, as it does at emulators of Azure, that belongs to the server.
    pub(super) fn parse(
        kind: SinkType,
        endpoint: &str,
        account: Option<&str>,
    ) -> Result<Self, SinkError> {
        let endpoint = endpoint.trim();
        let (server, rest) = match endpoint.split_once("://") {
            None => (None, endpoint),
            Some((scheme, rest)) => match (scheme.to_ascii_lowercase().as_str(), kind) {
                ("s3", SinkType::S3) | ("gs", SinkType::Gcs) | ("az", SinkType::Azureblob) => {
                    (None, rest)
                }
                (scheme @ ("http" | "https"), _) => {
                    let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
                    let server = server(scheme, host)?;
                    let inside = match account {
                        Some(account) if kind == SinkType::Azureblob => rest
                            .strip_prefix(account)
                            .and_then(|rest| rest.strip_prefix('/'))
                            .map(|rest| (format!("{server}/{account}"), rest)),
                        _ => None,
                    };
                    let (server, rest) = inside.unwrap_or((server, rest));
                    (Some(server), rest)
                }
                (other, _) => {
                    return Err(SinkError::terminal(format!(
                        "spec.endpoint: scheme {other:?} is not one of a {kind} sink; write {}",
                        forms(kind)
                    )));
                }
            },
        };
        let rest = rest.trim_end_matches('/');
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(SinkError::terminal(format!(
                "spec.endpoint must include a bucket; write {}",
                forms(kind)
            )));
        }
        let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !bucket.chars().all(usual) {
            return Err(SinkError::terminal(format!(
                "spec.endpoint: {bucket:?} is no name of a bucket; write {}",
                forms(kind)
            )));
        }
        let segments = prefix.split('/').filter(|segment| !segment.is_empty());
        let segments: Vec<&str> = segments.collect();
        let odd = |segment: &&str| {
            matches!(*segment, "." | "..")
                || segment.contains(|c: char| c.is_control() || c == '\\')
        };
        if segments.iter().any(odd) {
            return Err(SinkError::terminal(
                "spec.endpoint: the prefix must not hold '.', '..', backslashes or control characters",
            ));
        }
        Ok(Self {
            server,
            bucket: bucket.to_owned(),
            prefix: segments.join("/"),
        })
    }

    /// The bucket and prefix as messages name them.
    pub(super) fn shown(&self) -> String {
        match &*self.prefix {
            "" => format!("bucket {:?}", self.bucket),
            prefix => format!("bucket {:?}, prefix {prefix:?}", self.bucket),
        }
    }
}

fn forms(kind: SinkType) -> &'static str {
    match kind {
        SinkType::Gcs => "gs://bucket/prefix or https://host/bucket/prefix",
        SinkType::Azureblob => {
            "az://container/prefix or https://<account>.blob.core.windows.net/container/prefix"
        }
        _ => "s3://bucket/prefix or https://host:port/bucket/prefix",
    }
}

/// A server as the `url` crate reads it too: what it reads otherwise, or not at all, would be signed
/// for another host than it is sent to.
fn server(scheme: &str, host: &str) -> Result<String, SinkError> {
    let wrong = |what: &str| Err(SinkError::terminal(format!("spec.endpoint: {what}")));
    if host.contains('@') {
        return wrong("holds a user or a password; put them into the Secret of the sink");
    }
    let usual = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(usual) {
        return wrong("the host is missing or has characters that hosts do not have");
    }
    Ok(format!("{scheme}://{}", host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s33_s34_s38_endpoints() {
        let (s3, gcs, azure) = (SinkType::S3, SinkType::Gcs, SinkType::Azureblob);
        for (kind, endpoint, expected) in [
            (s3, "s3://bkt", Some((None, "bkt", ""))),
            (s3, " s3://b/p/q/ ", Some((None, "b", "p/q"))),
            (s3, "b/p/q/", Some((None, "b", "p/q"))),
            (
                s3,
                "https://h:9000/bkt/pre/fix",
                Some((Some("https://h:9000"), "bkt", "pre/fix")),
            ),
            (
                s3,
                "HTTP://Host/bkt//p/",
                Some((Some("http://host"), "bkt", "p")),
            ),
            (gcs, "gs://b/p", Some((None, "b", "p"))),
            (gcs, "b/p", Some((None, "b", "p"))),
            (
                gcs,
                "https://storage.googleapis.com/b/p",
                Some((Some("https://storage.googleapis.com"), "b", "p")),
            ),
            (azure, "az://box/p", Some((None, "box", "p"))),
            (azure, "box", Some((None, "box", ""))),
            (
                azure,
                "https://acct.blob.core.windows.net/box/p/q",
                Some((Some("https://acct.blob.core.windows.net"), "box", "p/q")),
            ),
            (
                azure,
                "http://h:10000/acct/box/p",
                Some((Some("http://h:10000/acct"), "box", "p")),
            ),
            (
                azure,
                "https://files.example.com/accty/p",
                Some((Some("https://files.example.com"), "accty", "p")),
            ),
            (
                azure,
                "http://h:10000/acct",
                Some((Some("http://h:10000"), "acct", "")),
            ),
            (azure, "s3://box", None),
            (s3, "az://box", None),
            (s3, "http://h:9000", None),
            (s3, "http://h:9000/", None),
            (s3, "", None),
            (s3, "s3:///p", None),
            (s3, "gs://b", None),
            (gcs, "s3://b", None),
            (s3, "ftp://h/b", None),
            (s3, "https://user:pw@h/b", None),
            (s3, "https://h%20/b", None),
            (s3, "https://[fe80::1%25eth0]/b", None),
            (s3, "s3://b/../other", None),
            (s3, "s3://b?x=1/p", None),
        ] {
            let found = Address::parse(kind, endpoint, Some("acct")).ok();
            let found = found
                .as_ref()
                .map(|found| (found.server.as_deref(), &*found.bucket, &*found.prefix));
            assert_eq!(found, expected, "{kind} {endpoint:?}");
        }
        let error = Address::parse(s3, "http://h:9000", None).unwrap_err();
        assert!(error.message().contains("must include a bucket"), "{error}");
    }
}
