//! Subjects: where on the server a row is found. Pure.

use sha2::{Digest, Sha256};

use kollect_api::identity::InventoryScope;

use crate::events::{Item, Source};

/// The longest word of a subject. Servers refuse lines of 4 KiB, subjects included.
const LONGEST_WORD: usize = 255;

/// The word of a cluster inventory, which is in no namespace.
const CLUSTER: &str = "_cluster";

/// The subjects of one inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subjects {
    /// What all of them begin with. Lossy: whether a message is this inventory's is told by its
    /// source alone.
    prefix: String,
}

impl Subjects {
    /// The subjects of an inventory below the subject of the sink.
    pub(super) fn of(base: &str, source: &Source) -> Self {
        let namespace = match &source.inventory().scope {
            InventoryScope::Namespace(namespace) => word(namespace),
            InventoryScope::Cluster => CLUSTER.to_owned(),
        };
        let cluster = word(source.cluster());
        let inventory = word(&source.inventory().name);
        Subjects {
            prefix: format!("{base}.{cluster}.{namespace}.{inventory}"),
        }
    }

    /// The subject of what is about the inventory as a whole.
    pub(super) fn own(&self) -> &str {
        &self.prefix
    }

    /// A pattern of all rows.
    pub(super) fn rows(&self) -> String {
        format!("{}.>", self.prefix)
    }

    /// The subject of one row.
    pub(super) fn row(&self, source: &Source, item: &Item<'_>) -> String {
        let digest = Sha256::digest(source.key(item).as_bytes());
        let id = digest[..8].iter().fold(String::new(), |mut id, byte| {
            use std::fmt::Write;
            let _ = write!(id, "{byte:02x}");
            id
        });
        let [kind, namespace, name] = [&item.kind, &item.namespace, &item.name].map(|it| word(it));
        format!("{}.{kind}.{namespace}.{name}.{id}", self.prefix)
    }
}

/// One word of a subject.
fn word(text: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    let word: String = text.chars().take(LONGEST_WORD).map(plain).collect();
    if word.is_empty() {
        "_".to_owned()
    } else {
        word
    }
}

/// Whether a pattern of a stream covers everything that a pattern or subject of ours stands for.
pub(super) fn covers(pattern: &str, ours: &str) -> bool {
    let (mut theirs, mut ours) = (pattern.split('.'), ours.split('.'));
    loop {
        match (theirs.next(), ours.next()) {
            (None, None) | (Some(">"), Some(_)) => return true,
            (Some("*"), Some(word)) if word != ">" => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use kollect_api::InventoryId;
    use proptest::prelude::*;

    use super::*;

    fn item(namespace: &str, name: &str) -> Item<'static> {
        Item {
            target_namespace: "team-a".into(),
            target_name: "deployments".into(),
            namespace: namespace.to_owned().into(),
            name: name.to_owned().into(),
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            uid: None,
        }
    }

    fn subjects(cluster: &str, inventory: &InventoryId) -> (Subjects, Source) {
        let source = Source::new(cluster, inventory);
        (Subjects::of("inventory.events", &source), source)
    }

    #[test]
    fn a_row_has_a_subject_of_its_own() {
        let web = InventoryId::namespaced("team-a", "web");
        let (subjects, source) = subjects("prod-west", &web);
        let subject = subjects.row(&source, &item("team-a", "api"));
        // The first 16 digits of the SHA-256 of the key.
        let key = "prod-west/team-a/web/team-a/deployments/apps/v1/Deployment/team-a/api";
        let id = &crate::events::sha256_hex(key.as_bytes())[..16];
        assert_eq!(
            subject,
            format!("inventory.events.prod-west.team-a.web.Deployment.team-a.api.{id}")
        );
        assert_eq!(subjects.own(), "inventory.events.prod-west.team-a.web");
        assert_eq!(subjects.rows(), "inventory.events.prod-west.team-a.web.>");
    }

    #[test]
    fn words_are_plain() {
        for (text, expected) in [
            ("", "_"),
            ("a.b", "a_b"),
            ("system:node", "system_node"),
            ("Ä>*", "___"),
            ("a b", "a_b"),
            ("A-z_9", "A-z_9"),
        ] {
            assert_eq!(word(text), expected);
        }
        assert_eq!(word(&"x".repeat(9_000)).len(), LONGEST_WORD);
        let (cluster, _) = subjects("", &InventoryId::cluster("web"));
        assert_eq!(cluster.own(), "inventory.events._._cluster.web");
    }

    /// C12: names that look alike as words, or are as long as names get, stay apart.
    #[test]
    fn c12_rows_stay_apart() {
        let web = InventoryId::namespaced("team-a", "web");
        let (subjects, source) = subjects("", &web);
        let long = "x".repeat(253);
        let names = [
            "a.b",
            "a:b",
            "a_b",
            "A_b",
            "a/b",
            &long,
            &format!("{long}y"),
        ];
        let mut all: Vec<String> = names
            .iter()
            .map(|name| subjects.row(&source, &item("ns", name)))
            .collect();
        for subject in &all {
            assert!(subject.len() < 2_048);
            assert!(covers(&subjects.rows(), subject));
            assert!(subject.is_ascii() && !subject.contains([' ', '*', '>']));
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), names.len());
    }

    /// C11: what an inventory reads is not what another one with a longer name wrote.
    #[test]
    fn c11_no_prefix_matches_another_inventory() {
        let (short, _) = subjects("", &InventoryId::namespaced("a", "x"));
        let (long, source) = subjects("", &InventoryId::namespaced("a", "x-y"));
        assert!(!covers(&short.rows(), &long.row(&source, &item("a", "n"))));
    }

    #[test]
    fn coverage() {
        for (pattern, ours, covered) in [
            ("a", "a", true),
            ("a", "a.>", false),
            ("a.>", "a.>", true),
            ("a.>", "a", false),
            (">", "a.>", true),
            ("a.*", "a.b", true),
            ("a.*", "a.>", false),
            ("a.*.>", "a.>", false),
            ("a.*.>", "a.b.>", true),
            ("a.b.>", "a.>", false),
            ("*.b", "a.b", true),
            ("b.>", "a.>", false),
        ] {
            assert_eq!(covers(pattern, ours), covered, "{pattern} {ours}");
        }
    }

    proptest! {
        /// Whatever people call their objects, the server takes the subject.
        #[test]
        fn subjects_are_valid(cluster in ".{0,30}", namespace in ".{0,30}", name in ".{0,300}") {
            let inventory = InventoryId::namespaced(namespace.clone(), name.clone());
            let (subjects, source) = subjects(&cluster, &inventory);
            let subject = subjects.row(&source, &item(&namespace, &name));
            prop_assert!(subject.split('.').all(|word| !word.is_empty()));
            prop_assert!(subject.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)));
            prop_assert_eq!(subject.split('.').count(), 2 + 3 + 4);
        }
    }
}
