//! What the API server was asked for, by its own count.

use std::collections::BTreeMap;

use anyhow::Result;
use kollect_testkit::Cluster;

/// What one kind of request is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// `PATCH`, `POST`, …
    pub verb: String,
    /// `kollect.dev`, empty for the core group.
    pub group: String,
    /// `kollecttargets`, `events`, …
    pub resource: String,
    /// `status`, mostly empty.
    pub subresource: String,
    /// Of the answer.
    pub code: u16,
}

impl Request {
    /// Whether it changes an object.
    pub fn is_write(&self) -> bool {
        matches!(&*self.verb, "PATCH" | "APPLY" | "POST" | "PUT" | "DELETE")
    }

    /// Whether it is about Kollect's own kinds.
    pub fn is_ours(&self) -> bool {
        self.group == "kollect.dev"
    }

    /// Whether the server did what was asked.
    pub fn succeeded(&self) -> bool {
        self.code < 400
    }
}

/// How often each kind of request was answered.
#[derive(Debug, Default)]
pub struct Requests(BTreeMap<Request, u64>);

impl Requests {
    /// Everything since the server started.
    pub fn of(cluster: &Cluster) -> Result<Self> {
        Ok(Self::read(&cluster.kubectl(&["get", "--raw", "/metrics"])?))
    }

    fn read(metrics: &str) -> Self {
        let mut all = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, count)) = line
                .strip_prefix("apiserver_request_total{")
                .and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                let all = labels.split(',').filter_map(|pair| pair.split_once('='));
                let mut named = all.filter(|(key, _)| *key == name);
                named
                    .next()
                    .map_or("", |(_, value)| value.trim_matches('"'))
            };
            let request = Request {
                verb: label("verb").to_owned(),
                group: label("group").to_owned(),
                resource: label("resource").to_owned(),
                subresource: label("subresource").to_owned(),
                code: label("code").parse().unwrap_or(0),
            };
            *all.entry(request).or_default() += count.parse().unwrap_or(0);
        }
        Self(all)
    }

    /// What came since an earlier count.
    pub fn since(&self, earlier: &Self) -> Self {
        let news = self.0.iter().map(|(request, count)| {
            let before = earlier.0.get(request).copied().unwrap_or(0);
            (request.clone(), count.saturating_sub(before))
        });
        Self(news.filter(|(_, count)| *count > 0).collect())
    }

    /// How many there are of a kind.
    pub fn count(&self, of: impl Fn(&Request) -> bool) -> u64 {
        let all = self.0.iter().filter(|(request, _)| of(request));
        all.map(|(_, count)| count).sum()
    }

    /// All of a kind, summed up by resource and subresource.
    pub fn by_resource(&self, of: impl Fn(&Request) -> bool) -> BTreeMap<(&str, &str), u64> {
        let mut sums = BTreeMap::new();
        for (request, count) in self.0.iter().filter(|(request, _)| of(request)) {
            *sums
                .entry((&*request.resource, &*request.subresource))
                .or_default() += count;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"
# HELP apiserver_request_total Counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="kollect.dev",resource="kollecttargets",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 12
apiserver_request_total{code="504",component="apiserver",dry_run="",group="kollect.dev",resource="kollecttargets",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="cluster",subresource="",verb="LIST",version="v1"} 40
"#;

    #[test]
    fn requests_are_counted_by_what_they_are() {
        let requests = Requests::read(PAGE);
        assert_eq!(requests.count(Request::is_write), 22);
        assert_eq!(requests.count(|request| !request.succeeded()), 3);
        let ours = requests.by_resource(Request::is_ours);
        assert_eq!(ours, BTreeMap::from([(("kollecttargets", "status"), 15)]));
        assert_eq!(requests.since(&Requests::read(PAGE)).count(|_| true), 0);
    }
}
