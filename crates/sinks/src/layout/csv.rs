//! Rows as columns: their names, and comma-separated values.
//!
//! The columns are those of Parquet files, so that both formats load into the same table.

use jiff::{Timestamp, tz::TimeZone};
use kollect_api::InventoryId;
use kollect_inventory::{CanonicalRef, Row, canonical::View};

use super::error::LayoutError;

/// Attributes with a column of their own when nobody names any.
const DEFAULT_HOT: [&str; 2] = ["image", "version"];

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// The API version, without the group.
    ApiVersion,
    /// One attribute, as text.
    Attribute {
        /// The attribute's name.
        attribute: String,
        /// The column's name.
        column: String,
    },
    /// All attributes, as JSON.
    Attributes,
    /// The cluster's name.
    Cluster,
    /// When the export began.
    ExportedAt,
    /// The API group; nothing for the core group.
    Group,
    /// The inventory's name.
    InventoryName,
    /// The inventory's namespace.
    InventoryNamespace,
    /// The kind.
    Kind,
    /// The object's name.
    Name,
    /// The object's namespace.
    Namespace,
    /// The target's name.
    TargetName,
    /// The target's namespace.
    TargetNamespace,
    /// The uid.
    Uid,
}

impl Column {
    /// The name in the header.
    pub fn name(&self) -> &str {
        match self {
            Column::ApiVersion => "api_version",
            Column::Attribute { column, .. } => column,
            Column::Attributes => "attributes",
            Column::Cluster => "cluster",
            Column::ExportedAt => "exported_at",
            Column::Group => "group",
            Column::InventoryName => "inventory_name",
            Column::InventoryNamespace => "inventory_namespace",
            Column::Kind => "kind",
            Column::Name => "name",
            Column::Namespace => "namespace",
            Column::TargetName => "target_name",
            Column::TargetNamespace => "target_namespace",
            Column::Uid => "uid",
        }
    }
}

/// The columns in the order of their names.
pub fn columns(hot_attributes: &[String]) -> Result<Vec<Column>, LayoutError> {
    let mut hot: Vec<&str> = Vec::new();
    for name in hot_attributes.iter().map(|name| name.trim()) {
        let known = hot
            .iter()
            .any(|other| other.to_lowercase() == name.to_lowercase());
        if !name.is_empty() && !known {
            hot.push(name);
        }
    }
    if hot.is_empty() {
        hot.extend(DEFAULT_HOT);
    }
    let mut columns = identity_columns();
    for attribute in hot {
        let column = column_name(attribute);
        let taken = columns.iter().find_map(|other| match other {
            Column::Attribute {
                attribute,
                column: name,
            } if *name == column => Some(attribute.clone()),
            _ => None,
        });
        if let Some(first) = taken {
            return Err(LayoutError::Columns {
                first,
                second: attribute.to_owned(),
                column,
            });
        }
        columns.push(Column::Attribute {
            attribute: attribute.to_owned(),
            column,
        });
    }
    columns.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(columns)
}

/// The columns that every file has, in the order of their names.
pub fn identity_columns() -> Vec<Column> {
    vec![
        Column::ApiVersion,
        Column::Attributes,
        Column::Cluster,
        Column::ExportedAt,
        Column::Group,
        Column::InventoryName,
        Column::InventoryNamespace,
        Column::Kind,
        Column::Name,
        Column::Namespace,
        Column::TargetName,
        Column::TargetNamespace,
        Column::Uid,
    ]
}

/// The column of an attribute, in letters that every reader takes.
pub fn column_name(attribute: &str) -> String {
    let name: String = attribute
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            'a'..='z' | '0'..='9' => Some(c),
            '-' | '_' | '.' => Some('_'),
            _ => None,
        })
        .collect();
    match &*name {
        "" => "attr_unknown".to_owned(),
        name => format!("attr_{name}"),
    }
}

/// The value of an attribute as a text of its own; nothing for null and for the empty text.
pub fn attribute_text(value: CanonicalRef<'_>) -> Option<String> {
    match value.view() {
        View::Null => None,
        View::Text(text) => (!text.is_empty()).then(|| text.into_owned()),
        _ => Some(value.as_str().to_owned()),
    }
}

/// A table of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) cluster: String,
    pub(super) inventory: InventoryId,
    pub(super) exported_at: Timestamp,
}

impl Table {
    pub(super) fn header(&self, out: &mut String) {
        line(
            out,
            self.columns.iter().map(|column| column.name().to_owned()),
        );
    }

    pub(super) fn row(&self, out: &mut String, row: &Row) {
        let origin = row.origin();
        let fields = self.columns.iter().map(|column| match column {
            Column::ApiVersion => origin.version().to_owned(),
            Column::Attribute { attribute, .. } => row
                .attributes()
                .get(attribute)
                .and_then(attribute_text)
                .unwrap_or_default(),
            Column::Attributes => row.attributes().to_json().as_str().to_owned(),
            Column::Cluster => self.cluster.clone(),
            Column::ExportedAt => self
                .exported_at
                .to_zoned(TimeZone::UTC)
                .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
                .to_string(),
            Column::Group => origin.group().to_owned(),
            Column::InventoryName => self.inventory.name.clone(),
            Column::InventoryNamespace => self.inventory.namespace().to_owned(),
            Column::Kind => origin.kind().to_owned(),
            Column::Name => row.name().to_owned(),
            Column::Namespace => origin.namespace().to_owned(),
            Column::TargetName => origin.target_name().to_owned(),
            Column::TargetNamespace => origin.target_namespace().to_owned(),
            Column::Uid => row.uid().to_string(),
        });
        line(out, fields);
    }
}

fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names() {
        for (attribute, expected) in [
            ("app$version", "attr_appversion"),
            ("Image-Tag", "attr_image_tag"),
            ("$$$", "attr_unknown"),
            ("app.kubernetes.io/name", "attr_app_kubernetes_ioname"),
        ] {
            assert_eq!(column_name(attribute), expected);
        }
        let names = |hot: &[&str]| -> Vec<String> {
            let hot: Vec<String> = hot.iter().map(|name| (*name).to_owned()).collect();
            let columns = columns(&hot).unwrap();
            let names = columns.iter().map(Column::name);
            names
                .filter(|name| name.starts_with("attr_"))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(
            names(&["image", "IMAGE", "version"]),
            ["attr_image", "attr_version"]
        );
        assert_eq!(names(&[" ", ""]), ["attr_image", "attr_version"]);
        assert!(columns(&["a-b".to_owned(), "a.b".to_owned()]).is_err());
    }
}
