//! Whose place a path is.
//!
//! Inventories that leave the templates alone write below `inventory/<namespace>/` and
//! `<cluster>/<namespace>/`. These areas belong to the inventories of that namespace: nobody else can
//! keep them out, whoever came first. Inventories of the same namespace settle it by who was first.

use kollect_api::{
    InventoryId, InventoryScope,
    rules::template::{Piece, Placeholder, Template},
    sink::common::LayoutMode,
};

use super::error::LayoutError;
use super::segment::{DEFAULT_LENGTH, GREATEST_LENGTH, sanitise};
use super::{Header, Layout};

/// Where documents stand if nobody says otherwise.
const DOCUMENTS: &str = "inventory";

/// The areas of one inventory, from one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Areas {
    /// The cluster's name as paths may show it.
    clusters: Vec<String>,
    /// The namespace as paths of documents may show it.
    documents: Vec<String>,
    /// The namespace as paths of rows may show it.
    rows: Vec<String>,
}

impl Areas {
    pub(super) fn of(cluster: &str, inventory: &InventoryId) -> Self {
        let documents = spellings(inventory.namespace());
        let mut rows = documents.clone();
        if let InventoryScope::Namespace(namespace) = &inventory.scope {
            // Rows stand in the namespace of their object, whatever it is called.
            rows.extend(spellings(namespace));
        }
        Areas {
            clusters: spellings(cluster),
            documents,
            rows,
        }
    }

    /// Whether a path is in one of them.
    pub(super) fn contain(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let (Some(first), Some(second)) = (segments.next(), segments.next()) else {
            return false;
        };
        let is = |names: &[String], name: &str| names.iter().any(|known| known == name);
        first == DOCUMENTS && is(&self.documents, second)
            || is(&self.clusters, first) && is(&self.rows, second)
    }
}

/// A name as path segments show it: how long it may be is the sink's to say.
fn spellings(name: &str) -> Vec<String> {
    [GREATEST_LENGTH, DEFAULT_LENGTH]
        .map(|longest| sanitise(name, longest).into_owned())
        .to_vec()
}

/// Refuses templates that lead into the area of a namespace by name. A placeholder that does so for
/// some rows is another matter: those rows are about that namespace, and give way when its own
/// inventories come.
///
/// Cluster inventories are the platform's, which may put their files where it likes.
pub(super) fn check(
    layout: &Layout,
    header: &Header<'_>,
    mode: LayoutMode,
) -> Result<(), LayoutError> {
    let InventoryScope::Namespace(own) = &header.inventory.scope else {
        return Ok(());
    };
    let areas = Areas::of(layout.cluster(), header.inventory);
    let templates: &[(&'static str, &Template)] = match mode {
        LayoutMode::Document => &[("spec.pathTemplate", &layout.documents)],
        _ if layout.has_index(mode) => &[
            ("spec.layout.pathTemplate", &layout.rows),
            ("spec.layout.index.pathTemplate", &layout.index),
        ],
        _ => &[("spec.layout.pathTemplate", &layout.rows)],
    };
    for (field, template) in templates {
        if let Some((first, second)) = fixed_start(layout, template)
            && (first == DOCUMENTS || areas.clusters.contains(&first))
            && !areas.contain(&format!("{first}/{second}/"))
        {
            return Err(LayoutError::ForeignArea {
                field,
                area: format!("{first}/{second}/"),
                namespace: second,
                own: own.clone(),
            });
        }
    }
    Ok(())
}

/// The first two segments of a template, if they are the same for everybody.
fn fixed_start(layout: &Layout, template: &Template) -> Option<(String, String)> {
    let mut segments = vec![Some(String::new())];
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => {
                for (at, part) in text.split('/').enumerate() {
                    if at > 0 {
                        segments.push(Some(String::new()));
                    }
                    if let Some(Some(last)) = segments.last_mut() {
                        last.push_str(part);
                    }
                }
            }
            Piece::Placeholder(Placeholder::Cluster) => {
                let cluster = sanitise(layout.cluster(), layout.naming.longest);
                if let Some(Some(last)) = segments.last_mut() {
                    last.push_str(&cluster);
                }
            }
            Piece::Placeholder(_) => {
                if let Some(last) = segments.last_mut() {
                    *last = None;
                }
            }
        }
    }
    // What is empty leaves no trace in a path, and the last one is the file itself.
    let last = segments.pop();
    let trimmed = segments
        .into_iter()
        .map(|segment| segment.map(|text| text.trim().to_owned()));
    let mut kept = trimmed.filter(|segment| segment.as_deref() != Some(""));
    match (kept.next()?, kept.next()) {
        (Some(first), Some(Some(second))) => Some((first, second)),
        // A file in the place of the namespace's directory keeps everybody out of it.
        (Some(first), None) => {
            let file = last.flatten()?;
            let file = file.trim();
            (!file.is_empty()).then(|| (first, file.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a20_areas_belong_to_a_namespace() {
        let team = Areas::of("prod", &InventoryId::namespaced("team-a", "web"));
        for (path, expected) in [
            ("inventory/team-a/web.yaml", true),
            ("prod/team-a/pod/x.yaml", true),
            ("prod/team-b/pod/x.yaml", false),
            ("inventory/team-ab/web.yaml", false),
            ("inventory", false),
            ("east/team-a/pod/x.yaml", false),
            ("files/team-a/x.yaml", false),
        ] {
            assert_eq!(team.contain(path), expected, "{path}");
        }
    }

    /// A namespace that is called `cluster` has other files than cluster inventories.
    #[test]
    fn b12_documents_of_a_namespace_called_cluster_have_a_place_of_their_own() {
        let platform = Areas::of("prod", &InventoryId::cluster("web"));
        let team = Areas::of("prod", &InventoryId::namespaced("cluster", "web"));
        assert!(platform.contain("inventory/cluster/web.yaml"));
        assert!(!team.contain("inventory/cluster/web.yaml"));
        assert!(team.contain("prod/cluster/pod/x.yaml"));
    }
}
