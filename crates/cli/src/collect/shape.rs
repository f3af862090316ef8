//! Which rows and columns are shown, and in which order. Pure.

use anyhow::{Context as _, Result, bail};
use kollect_expr::cel::Program;
use kollect_inventory::{Row, Snapshot};
use serde_json::{Map, Value};
use std::cmp::Ordering;

use crate::{manifest::nearest, render::Grid};

/// What a column shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    Cluster,
    TargetNamespace,
    TargetName,
    Namespace,
    Name,
    Group,
    Version,
    Kind,
    Uid,
    Attribute(String),
}

/// What columns are called that every row has.
const IDENTITY: [(&str, Column); 9] = [
    ("cluster", Column::Cluster),
    ("targetNamespace", Column::TargetNamespace),
    ("targetName", Column::TargetName),
    ("namespace", Column::Namespace),
    ("name", Column::Name),
    ("group", Column::Group),
    ("version", Column::Version),
    ("kind", Column::Kind),
    ("uid", Column::Uid),
];

impl Column {
    /// The column of this name: one that every row has, or an attribute.
    fn named(name: &str, attributes: &[String]) -> Result<Self> {
        if let Some(attribute) = name.strip_prefix("attributes.") {
            return Ok(Column::Attribute(attribute.to_owned()));
        }
        let known = IDENTITY.iter().find(|(known, _)| *known == name);
        if let Some((_, column)) = known {
            return Ok(column.clone());
        }
        if attributes.iter().any(|known| known == name) {
            return Ok(Column::Attribute(name.to_owned()));
        }
        let all = IDENTITY.iter().map(|(known, _)| *known);
        let all: Vec<&str> = all.chain(attributes.iter().map(String::as_str)).collect();
        match nearest(name, all.iter().copied()) {
            Some(meant) => bail!("there is no column {name:?}; did you mean {meant:?}?"),
            None => bail!("there is no column {name:?}; there are {}", all.join(", ")),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Column::Attribute(name) => name,
            other => {
                let known = IDENTITY.iter().find(|(_, column)| column == other);
                known.map_or("", |(name, _)| name)
            }
        }
    }

    /// What a row of a cluster has there.
    pub(crate) fn of(&self, row: &Row, cluster: &str) -> Value {
        let origin = row.origin();
        let text = |text: &str| Value::from(text);
        match self {
            Column::Cluster => text(cluster),
            Column::TargetNamespace => text(origin.target_namespace()),
            Column::TargetName => text(origin.target_name()),
            Column::Namespace => text(origin.namespace()),
            Column::Name => text(row.name()),
            Column::Group => text(origin.group()),
            Column::Version => text(origin.version()),
            Column::Kind => text(origin.kind()),
            Column::Uid => text(&row.uid().text()),
            Column::Attribute(name) => {
                let value = row.attributes().get(name);
                value
                    .and_then(|value| value.to_value().ok())
                    .unwrap_or_default()
            }
        }
    }
}

/// What a person asked for.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Nothing means the usual ones.
    pub(crate) columns: Option<Vec<Column>>,
    /// By these columns, and whether downwards.
    sort: Vec<(Column, bool)>,
    filter: Option<Program>,
}

impl Shape {
    /// Understands the flags. `attributes` are those of all profiles.
    pub(crate) fn new(
        columns: &[String],
        sort: &[String],
        filter: Option<&str>,
        attributes: &[String],
    ) -> Result<Self> {
        let named = |name: &String| Column::named(name.trim(), attributes);
        let columns: Vec<Column> = columns
            .iter()
            .map(named)
            .collect::<Result<_>>()
            .context("--columns")?;
        let by = |name: &String| {
            let name = name.trim();
            let down = name.strip_prefix('-');
            let column = Column::named(down.unwrap_or(name), attributes)?;
            anyhow::Ok((column, down.is_some()))
        };
        Ok(Self {
            columns: (!columns.is_empty()).then_some(columns),
            sort: sort
                .iter()
                .map(by)
                .collect::<Result<_>>()
                .context("--sort")?,
            filter: filter.map(condition).transpose()?,
        })
    }

    /// Whether rows are shown in a form of their own, and not as they are stored.
    pub(crate) fn is_own(&self) -> bool {
        self.columns.is_some() || !self.sort.is_empty()
    }

    /// Whether anything was asked for.
    pub(crate) fn is_any(&self) -> bool {
        self.is_own() || self.filter.is_some()
    }

    /// The rows that are wanted. A condition that fails for a row is an error: nobody would notice that it is missing.
    pub(crate) fn filter(&self, rows: &Snapshot, cluster: &str) -> Result<Snapshot> {
        let Some(program) = &self.filter else {
            return Ok(rows.clone());
        };
        let mut kept = Vec::new();
        for row in rows.rows() {
            if holds(program, &object(row, cluster), row.name())? {
                kept.push(row.clone());
            }
        }
        Ok(Snapshot::new(kept))
    }

    /// The rows with these columns, in the order that was asked for.
    pub(crate) fn grid(&self, rows: &Snapshot, cluster: &str, columns: &[Column]) -> Grid {
        let mut sorted: Vec<&Row> = rows.rows().iter().collect();
        if !self.sort.is_empty() {
            let keys = |row: &Row| -> Vec<Value> {
                let columns = self.sort.iter();
                columns.map(|(column, _)| column.of(row, cluster)).collect()
            };
            sorted.sort_by_cached_key(|row| Keys {
                values: keys(row),
                down: self.sort.iter().map(|(_, down)| *down).collect(),
            });
        }
        let mut grid = Grid::new(columns.iter().map(Column::name));
        for row in sorted {
            let cells = columns.iter().map(|column| column.of(row, cluster));
            grid.rows.push(cells.collect());
        }
        grid
    }
}

/// Compiles a condition on rows: `cel:` and an expression about `object`.
pub(crate) fn condition(text: &str) -> Result<Program> {
    let Some(expression) = text.trim().strip_prefix("cel:") else {
        bail!("--where: write a condition as 'cel:object.replicas > 2'");
    };
    Program::compile(expression.trim()).map_err(|error| anyhow::anyhow!("--where: {error}"))
}

/// Whether a condition holds for a row.
pub(crate) fn holds(program: &Program, object: &Value, name: &str) -> Result<bool> {
    program.test(object).map_err(|error| {
        anyhow::anyhow!(
            "--where fails for {name:?}: {error}; has(object.x) says whether something is there"
        )
    })
}

/// A row as conditions see it: what every row has, its attributes, and all of them together below `attributes`.
fn object(row: &Row, cluster: &str) -> Value {
    let mut all = Map::new();
    let mut attributes = Map::new();
    for (name, value) in row.attributes().iter() {
        let value = value.to_value().unwrap_or_default();
        // What is null is not there: has() tells.
        if !value.is_null() {
            all.insert(name.to_string(), value.clone());
        }
        attributes.insert(name.into_owned(), value);
    }
    for (name, column) in IDENTITY {
        all.insert(name.to_owned(), column.of(row, cluster));
    }
    all.insert("attributes".to_owned(), Value::Object(attributes));
    Value::Object(all)
}

/// What rows are sorted by. Nothing comes last.
#[derive(Debug, PartialEq)]
struct Keys {
    values: Vec<Value>,
    down: Vec<bool>,
}

impl Eq for Keys {}

impl PartialOrd for Keys {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Keys {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.values.iter().zip(&other.values).zip(&self.down);
        for ((one, other), down) in pairs {
            let order = match (one.is_null(), other.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) => return Ordering::Greater,
                (false, true) => return Ordering::Less,
                (false, false) => compare(one, other),
            };
            let order = if *down { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// Numbers by their size, everything else as text.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => {
            let text = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            text(one).cmp(&text(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use kollect_inventory::{AttributesBuffer, Interner, OriginParts, TargetKind};

    use super::*;

    fn rows() -> Snapshot {
        let mut interner = Interner::new();
        let mut buffer = AttributesBuffer::default();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team",
            target_name: "pods",
            namespace: "team",
            group: "",
            version: "v1",
            kind: "Pod",
        });
        let table = [("a", Some(10)), ("b", Some(9)), ("c", None)];
        let row = |(name, replicas): (&str, Option<i64>)| {
            let mut attributes = buffer.start();
            let slot = attributes.attribute("replicas");
            match replicas {
                Some(replicas) => slot.signed(replicas),
                None => slot.null(),
            }
            interner.row(&origin, name, name, buffer.view())
        };
        table.into_iter().map(row).collect()
    }

    fn shown(columns: &[&str], sort: &[&str], filter: Option<&str>) -> Result<Vec<String>> {
        let owned = |texts: &[&str]| -> Vec<String> {
            texts.iter().map(|text| (*text).to_owned()).collect()
        };
        let attributes = owned(&["replicas"]);
        let shape = Shape::new(&owned(columns), &owned(sort), filter, &attributes)?;
        let rows = shape.filter(&rows(), "prod")?;
        let columns = shape.columns.clone().unwrap_or_default();
        let grid = shape.grid(&rows, "prod", &columns);
        let line = |row: &Vec<Value>| {
            let cells: Vec<String> = row.iter().map(crate::render::cell).collect();
            cells.join(" ")
        };
        Ok(grid.rows.iter().map(line).collect())
    }

    #[test]
    fn columns_order_and_conditions() {
        type Case<'c> = (&'c [&'c str], &'c [&'c str], Option<&'c str>, &'c [&'c str]);
        let table: [Case<'_>; 5] = [
            (&["name"], &["replicas"], None, &["b", "a", "c"]),
            (&["name"], &["-replicas"], None, &["a", "b", "c"]),
            (
                &["cluster", "replicas"],
                &["name"],
                Some("cel:has(object.replicas) && object.replicas > 9"),
                &["prod 10"],
            ),
            (
                &["name"],
                &[],
                Some("cel:object.attributes.replicas == null"),
                &["c"],
            ),
            (
                &["attributes.replicas"],
                &[],
                Some("cel:object.name == 'b'"),
                &["9"],
            ),
        ];
        for (columns, sort, filter, expected) in table {
            let shown = shown(columns, sort, filter).unwrap();
            assert_eq!(shown, expected, "{columns:?} {sort:?} {filter:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (columns, filter, expected) in [
            ("replcas", None, "did you mean \"replicas\"?"),
            ("colour", None, "there are cluster, targetNamespace"),
            ("name", Some("object.x"), "write a condition as"),
            ("name", Some("cel:1 +"), "--where: "),
            ("name", Some("cel:object.replicas > 2"), "has(object.x)"),
        ] {
            let error = format!("{:#}", shown(&[columns], &[], filter).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
