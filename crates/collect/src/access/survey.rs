//! From single verdicts to where a resource may be watched.

use std::collections::{BTreeMap, BTreeSet};

/// The outcome of reviewing one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Listing and watching are allowed.
    Allowed,
    /// At least one of both is not.
    Denied,
    /// The API server did not say.
    Failed(String),
}

/// How much is reviewed and watched where the whole cluster is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Namespaces that may be watched one by one. Each is a connection of its own.
    pub watches: usize,
    /// Namespaces that are reviewed to find them.
    pub reviews: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            watches: 20,
            reviews: 200,
        }
    }
}

/// Where a resource may be listed and watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// In the whole cluster.
    Everywhere,
    /// In single namespaces at most.
    Namespaces(NamespaceAccess),
    /// Not at all: the resource has no namespaces, or none are wanted.
    Forbidden,
    /// The API server did not say. What was known before should be kept.
    Unknown(String),
}

/// The wanted namespaces, each in exactly one of the four sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceAccess {
    /// To be watched.
    pub allowed: BTreeSet<String>,
    /// Not permitted.
    pub forbidden: BTreeSet<String>,
    /// The API server did not say, and why.
    pub failed: BTreeMap<String, String>,
    /// More than the bounds allow; only the right to the whole cluster helps these.
    pub beyond: BTreeSet<String>,
}

/// Puts the verdicts together. `places` are those of single namespaces, and empty unless the
/// whole cluster is denied.
pub(super) fn evaluate(
    everywhere: Verdict,
    places: BTreeMap<String, Verdict>,
    wanted: &BTreeSet<String>,
    bounds: Bounds,
) -> Access {
    match everywhere {
        Verdict::Allowed => return Access::Everywhere,
        Verdict::Failed(problem) => return Access::Unknown(problem),
        Verdict::Denied if places.is_empty() => return Access::Forbidden,
        Verdict::Denied => {}
    }
    let unreviewed = wanted.iter().filter(|name| !places.contains_key(*name));
    let mut access = NamespaceAccess {
        beyond: unreviewed.cloned().collect(),
        ..NamespaceAccess::default()
    };
    // In order of names, so that the same namespaces are chosen each time.
    for (namespace, verdict) in places {
        match verdict {
            Verdict::Allowed if access.allowed.len() < bounds.watches => {
                access.allowed.insert(namespace);
            }
            Verdict::Allowed => {
                access.beyond.insert(namespace);
            }
            Verdict::Denied => {
                access.forbidden.insert(namespace);
            }
            Verdict::Failed(problem) => {
                access.failed.insert(namespace, problem);
            }
        }
    }
    Access::Namespaces(access)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        watches: 2,
        reviews: 4,
    };

    fn failed() -> Verdict {
        Verdict::Failed("no answer".to_owned())
    }

    fn set(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// `+a -b ?c` is allowed in a, denied in b, failed in c.
    fn places(text: &str) -> BTreeMap<String, Verdict> {
        let place = |word: &str| {
            let (sign, name) = word.split_at(1);
            let verdict = match sign {
                "+" => Verdict::Allowed,
                "-" => Verdict::Denied,
                _ => failed(),
            };
            (name.to_owned(), verdict)
        };
        text.split_whitespace().map(place).collect()
    }

    #[test]
    fn the_whole_cluster_decides_first() {
        let wanted = set("a b");
        let cases = [
            (Verdict::Allowed, Access::Everywhere),
            (failed(), Access::Unknown("no answer".to_owned())),
            (Verdict::Denied, Access::Forbidden),
        ];
        for (everywhere, expected) in cases {
            let access = evaluate(everywhere, BTreeMap::new(), &wanted, BOUNDS);
            assert_eq!(access, expected);
        }
    }

    #[test]
    fn each_namespace_is_in_one_set() {
        let cases = [
            // verdicts, wanted: allowed, forbidden, failed, beyond
            ("+a", "a", ["a", "", "", ""]),
            ("-a", "a", ["", "a", "", ""]),
            ("+a -b ?c", "a b c", ["a", "b", "c", ""]),
            ("-a +b +c +d", "a b c d", ["b c", "a", "", "d"]),
            ("-a -b -c -d", "a b c d e", ["", "a b c d", "", "e"]),
        ];
        for (verdicts, wanted, [allowed, forbidden, unknown, beyond]) in cases {
            let access = evaluate(Verdict::Denied, places(verdicts), &set(wanted), BOUNDS);
            let unknown = set(unknown).into_iter();
            let expected = NamespaceAccess {
                allowed: set(allowed),
                forbidden: set(forbidden),
                failed: unknown.map(|name| (name, "no answer".to_owned())).collect(),
                beyond: set(beyond),
            };
            assert_eq!(access, Access::Namespaces(expected), "{verdicts}");
        }
    }
}
