//! What the author of a target must be allowed to read.
//!
//! An operator may read more than most of those who write targets. Whoever writes a target, or
//! changes the profile of one, must be allowed to `list` what it will collect, as Kubernetes itself
//! asks of those who hand out rights: otherwise the operator would read for them what they may not.
//!
//! Which rights are asked for is decided here; asking is for somebody else.

use std::fmt;

use crate::{
    judge::{Denied, Judgement},
    review::User,
};

/// How many namespaces are asked about one by one. Who needs more needs the right in the whole
/// cluster.
pub const MOST_NAMESPACES: usize = 32;
/// How many targets of a profile are asked about.
pub const MOST_TARGETS: usize = 16;

/// What is done about authors who may not read what they collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing; nobody is asked.
    Off,
    /// They are told.
    #[default]
    Warn,
    /// They are refused.
    Enforce,
}

/// Where something is collected from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// From every namespace there is or will be, or from none: the objects have no namespace.
    Everywhere,
    /// From these namespaces.
    In(Vec<String>),
}

/// What would be collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// API group; empty for the core group.
    pub group: String,
    /// The resource, as in paths.
    pub plural: String,
    /// Where.
    pub places: Places,
}

/// The right to list a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: String,
    /// The resource, as in paths.
    pub plural: String,
    /// Where; nothing for the whole cluster.
    pub namespace: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list {}", self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace:?}"),
            None => f.write_str(" in the whole cluster"),
        }
    }
}

impl Claim {
    /// The right that answers everything at once.
    pub fn whole(&self) -> Right {
        self.right(None)
    }

    /// The rights that do as well, all together; nothing if only the whole will do.
    pub fn parts(&self) -> Option<Vec<Right>> {
        match &self.places {
            Places::In(namespaces) if namespaces.len() <= MOST_NAMESPACES => {
                let each = namespaces.iter();
                Some(each.map(|name| self.right(Some(name.clone()))).collect())
            }
            Places::In(_) | Places::Everywhere => None,
        }
    }

    fn right(&self, namespace: Option<String>) -> Right {
        Right {
            group: self.group.clone(),
            plural: self.plural.clone(),
            namespace,
        }
    }
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The author may read all of it.
    Permitted,
    /// This right is missing.
    Lacking(Right),
    /// The API server did not say.
    NotKnown(String),
}

/// Adds what came of asking about an author to what is said of an object.
pub fn conclude(
    mut judgement: Judgement,
    mode: Mode,
    object: &str,
    user: &User,
    finding: &Finding,
) -> Judgement {
    let (denied, warning) = match finding {
        Finding::Permitted => return judgement,
        Finding::Lacking(right) => {
            let text = format!(
                "{object}: user {:?} may not {right}, which the operator would read for it; grant that \
                 right, or let somebody apply it who has it",
                user.username
            );
            (Denied::Author(text.clone()), text)
        }
        Finding::NotKnown(why) => {
            let text = format!(
                "{object}: whether user {:?} may read what it collects is not known: {why}",
                user.username
            );
            (
                Denied::NotKnown(format!("{text}; try again in a moment")),
                text,
            )
        }
    };
    match mode {
        Mode::Off => {}
        Mode::Warn => judgement.warnings.push(warning),
        Mode::Enforce => judgement = Judgement::denied(denied),
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(places: Places) -> Claim {
        Claim {
            group: "apps".to_owned(),
            plural: "deployments".to_owned(),
            places,
        }
    }

    #[test]
    fn the_whole_is_asked_for_first_and_the_parts_are_bounded() {
        let names = |count: usize| (0..count).map(|number| format!("n{number}")).collect();
        for (places, parts) in [
            (Places::Everywhere, None),
            (Places::In(names(2)), Some(2)),
            (Places::In(names(0)), Some(0)),
            (Places::In(names(MOST_NAMESPACES)), Some(MOST_NAMESPACES)),
            (Places::In(names(MOST_NAMESPACES + 1)), None),
        ] {
            let claim = claim(places);
            assert_eq!(claim.whole().namespace, None);
            let found = claim.parts().map(|parts| parts.len());
            assert_eq!(found, parts, "{:?}", claim.places);
        }
    }

    #[test]
    fn what_is_missing_is_told_or_refused() {
        let user = User {
            username: "jane".to_owned(),
            ..User::default()
        };
        let whole = claim(Places::Everywhere).whole();
        let lacking = Finding::Lacking(whole);
        let unknown = Finding::NotKnown("no answer".to_owned());
        for (mode, finding, code, warnings) in [
            (Mode::Off, &lacking, None, 0),
            (Mode::Warn, &lacking, None, 1),
            (Mode::Enforce, &lacking, Some(403), 0),
            (Mode::Warn, &unknown, None, 1),
            (Mode::Enforce, &unknown, Some(503), 0),
            (Mode::Enforce, &Finding::Permitted, None, 0),
        ] {
            let object = "KollectTarget \"x\"";
            let judgement = conclude(Judgement::default(), mode, object, &user, finding);
            let denied = judgement.denied.as_ref();
            assert_eq!(denied.map(Denied::code), code, "{mode:?} {finding:?}");
            assert_eq!(judgement.warnings.len(), warnings, "{mode:?} {finding:?}");
            let said = denied.map(ToString::to_string);
            for text in said.iter().chain(&judgement.warnings) {
                for part in ["KollectTarget \"x\"", "jane"] {
                    assert!(text.contains(part), "{text}");
                }
                if finding == &lacking {
                    let right = "list deployments.apps in the whole cluster";
                    assert!(text.contains(right), "{text}");
                }
            }
        }
    }
}
