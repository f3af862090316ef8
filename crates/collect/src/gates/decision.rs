//! The answer of the gates.

use std::fmt;

/// Whether an object becomes a row of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It does, if extraction succeeds.
    Collect,
    /// It does not, and a row it had is removed.
    Skip(Skip),
}

/// Why an object is not collected. The words of [`Skip::as_str`] are fit for a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// Its namespace is not among those the target collects from.
    Namespace,
    /// No rule takes it.
    Rules,
    /// Its name is not listed.
    Name,
    /// Its labels do not match.
    Labels,
    /// Its own label opts out.
    ObjectOptedOut,
    /// Its namespace opts out.
    NamespaceOptedOut,
    /// The target collects only what opts in, and nothing does.
    NotOptedIn,
}

impl Skip {
    /// All reasons, in the order of the gates.
    pub const ALL: [Skip; 7] = [
        Skip::Namespace,
        Skip::Rules,
        Skip::Name,
        Skip::Labels,
        Skip::ObjectOptedOut,
        Skip::NamespaceOptedOut,
        Skip::NotOptedIn,
    ];

    /// One word for machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Skip::Namespace => "namespace",
            Skip::Rules => "rules",
            Skip::Name => "name",
            Skip::Labels => "labels",
            Skip::ObjectOptedOut => "object_opted_out",
            Skip::NamespaceOptedOut => "namespace_opted_out",
            Skip::NotOptedIn => "not_opted_in",
        }
    }
}

impl fmt::Display for Skip {
    /// A sentence for people who ask why something is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skip::Namespace => "the target does not collect from its namespace",
            Skip::Rules => "no entry of spec.resourceRules takes it",
            Skip::Name => "its name is not in spec.names",
            Skip::Labels => "its labels do not match spec.labelSelector",
            Skip::ObjectOptedOut => "its label kollect.dev/watch is disabled",
            Skip::NamespaceOptedOut => {
                "its namespace opts out with kollect.dev/watch or kollect.dev/namespace-watch"
            }
            Skip::NotOptedIn => {
                "spec.watchMode is OptIn and neither it nor its namespace is labelled kollect.dev/watch: enabled"
            }
        })
    }
}

/// Policies of rules that could not be evaluated on one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyFailures {
    /// How many.
    pub count: u32,
    /// The last one: which rule and what stood against it. Names paths and types, never values.
    pub last: Option<Box<str>>,
}

/// A decision, and what went wrong on the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What to do with the object.
    pub decision: Decision,
    /// Policies that counted as "no match" because they failed.
    pub policy_failures: PolicyFailures,
}

impl Verdict {
    /// Whether the object is collected.
    pub fn collects(&self) -> bool {
        self.decision == Decision::Collect
    }
}
