//! What the database has under the name of the table, and whether it will do.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt};
use tokio_postgres::{Client, Row};

use super::sql::KeyShape;
use crate::error::SinkError;

const KIND: &str = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)";

const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
     WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";

/// Unique keys that an `ON CONFLICT` can rely on: valid, immediate, without condition or expression.
/// Names are joined by a character that none of ours has: an array would be read with room for as
/// many elements as the server claims.
const KEYS: &str = "SELECT c.conname::text, string_agg(a.attname::text, chr(10)) \
     FROM pg_index x \
     JOIN pg_attribute a ON a.attrelid = x.indrelid \
       AND a.attnum = ANY ((x.indkey::int2[])[0:x.indnkeyatts - 1]) \
     LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid AND c.conrelid = x.indrelid \
       AND c.contype = 'p' \
     WHERE x.indrelid = to_regclass($1) AND x.indisunique AND x.indisvalid AND x.indimmediate \
       AND x.indpred IS NULL AND x.indexprs IS NULL \
     GROUP BY x.indexrelid, c.conname";

/// No table has more columns, or keys.
const MOST: usize = 2_000;

/// A table as the database has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// `r` for a table, `p` for a partitioned one, anything else for something else.
    pub(super) kind: String,
    /// Names and types.
    pub(super) columns: Vec<(String, String)>,
    pub(super) keys: Vec<FoundKey>,
}

/// A unique key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundKey {
    /// The name of the constraint, if it is the primary key.
    pub(super) primary: Option<String>,
    pub(super) columns: BTreeSet<String>,
}

impl Found {
    /// Looks a quoted name up.
    pub(super) async fn read(
        client: &Client,
        name: &str,
    ) -> Result<Option<Self>, tokio_postgres::Error> {
        let Some(kind) = client.query_opt(KIND, &[&name]).await? else {
            return Ok(None);
        };
        let columns = rows(client, COLUMNS, name, |row| {
            Ok((row.try_get(0)?, row.try_get(1)?))
        });
        let columns = columns.await?;
        let keys = rows(client, KEYS, name, |row| {
            let columns: &str = row.try_get(1)?;
            Ok(FoundKey {
                primary: row.try_get(0)?,
                columns: columns.lines().map(str::to_owned).collect(),
            })
        });
        Ok(Some(Self {
            kind: kind.try_get(0)?,
            columns,
            keys: keys.await?,
        }))
    }

    /// Whether rows can be kept in it, and by which key.
    pub(super) fn judge(&self, name: &str) -> Result<KeyShape, SinkError> {
        self.check(name, &TABLE)?;
        [KeyShape::WithCluster, KeyShape::WithoutCluster]
            .into_iter()
            .find(|shape| self.key(*shape).is_some())
            .ok_or_else(|| {
                SinkError::terminal(format!(
                    "postgres table {name} has no unique key that rows can be found by; run: \
                     ALTER TABLE {name} ADD PRIMARY KEY ({})",
                    KeyShape::WithCluster.columns().join(", ")
                ))
            })
    }

    /// Whether changes can be logged in it.
    pub(super) fn judge_history(&self, name: &str) -> Result<(), SinkError> {
        self.check(name, &HISTORY)
    }

    /// The unique key over exactly these columns.
    pub(super) fn key(&self, shape: KeyShape) -> Option<&FoundKey> {
        let wanted: BTreeSet<String> = shape
            .columns()
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        self.keys.iter().find(|key| key.columns == wanted)
    }

    fn check(&self, name: &str, columns: &[(&str, Kind)]) -> Result<(), SinkError> {
        if !["r", "p"].contains(&self.kind.as_str()) {
            return Err(SinkError::terminal(format!(
                "postgres: {name} is not a table"
            )));
        }
        for (column, kind) in columns {
            let wanted = kind.types();
            match self.columns.iter().find(|(name, _)| name == column) {
                None => {
                    return Err(SinkError::terminal(format!(
                        "postgres table {name} has no column {column} of type {}",
                        wanted[0]
                    )));
                }
                Some((_, found)) if !wanted.contains(&found.as_str()) => {
                    return Err(SinkError::terminal(format!(
                        "column {column} of postgres table {name} has type {found}; it must be {}",
                        wanted[0]
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The rows of an answer about a table, as far as there can be any.
async fn rows<T>(
    client: &Client,
    question: &str,
    name: &str,
    read: impl Fn(&Row) -> Result<T, tokio_postgres::Error>,
) -> Result<Vec<T>, tokio_postgres::Error> {
    let answer = client.query_raw(question, [name]).await?;
    let mut answer = std::pin::pin!(answer.take(MOST));
    let mut found = Vec::new();
    while let Some(row) = answer.try_next().await? {
        found.push(read(&row)?);
    }
    Ok(found)
}

/// What a column has to hold.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Json,
    Time,
}

impl Kind {
    /// Types that do; the first is the one that is created.
    fn types(self) -> &'static [&'static str] {
        match self {
            Kind::Text => &["text", "character varying", "citext"],
            Kind::Json => &["jsonb"],
            Kind::Time => &["timestamp with time zone"],
        }
    }
}

const TABLE: [(&str, Kind); 8] = [
    ("inventory_namespace", Kind::Text),
    ("inventory_name", Kind::Text),
    ("target_name", Kind::Text),
    ("source_uid", Kind::Text),
    ("cluster", Kind::Text),
    ("resource_namespace", Kind::Text),
    ("payload", Kind::Json),
    ("exported_at", Kind::Time),
];

const HISTORY: [(&str, Kind); 9] = [
    ("inventory_namespace", Kind::Text),
    ("inventory_name", Kind::Text),
    ("cluster", Kind::Text),
    ("target_name", Kind::Text),
    ("source_uid", Kind::Text),
    ("resource_namespace", Kind::Text),
    ("valid_from", Kind::Time),
    ("operation", Kind::Text),
    ("payload", Kind::Json),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Found {
        let columns = TABLE
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.types()[0].to_owned()))
            .collect();
        Found {
            kind: "r".into(),
            columns,
            keys: vec![],
        }
    }

    fn key(shape: KeyShape) -> FoundKey {
        FoundKey {
            primary: Some("items_pkey".into()),
            columns: shape
                .columns()
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
        }
    }

    #[test]
    fn keys_with_and_without_the_cluster_will_do() {
        for (keys, expected) in [
            (vec![KeyShape::WithCluster], Ok(KeyShape::WithCluster)),
            (vec![KeyShape::WithoutCluster], Ok(KeyShape::WithoutCluster)),
            (
                vec![KeyShape::WithoutCluster, KeyShape::WithCluster],
                Ok(KeyShape::WithCluster),
            ),
            (vec![], Err("has no unique key")),
        ] {
            let found = Found {
                keys: keys.into_iter().map(key).collect(),
                ..table()
            };
            match (found.judge("\"t\""), expected) {
                (Ok(shape), Ok(wanted)) => assert_eq!(shape, wanted),
                (Err(error), Err(says)) => assert!(error.message().contains(says), "{error}"),
                (found, wanted) => panic!("{found:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn columns_are_checked_by_name_and_type() {
        let change = |change: fn(&mut Found)| {
            let mut found = table();
            found.keys.push(key(KeyShape::WithCluster));
            change(&mut found);
            found
                .judge("\"t\"")
                .err()
                .map(|error| error.message().to_owned())
        };
        assert_eq!(change(|_| {}), None);
        assert_eq!(change(|found| found.kind = "p".into()), None);
        assert_eq!(
            change(|found| found.columns[0].1 = "character varying".into()),
            None
        );
        assert_eq!(
            change(|found| found.columns.push(("owner".into(), "oid".into()))),
            None
        );
        assert_eq!(
            change(|found| found.kind = "v".into()).unwrap(),
            "postgres: \"t\" is not a table"
        );
        assert_eq!(
            change(|found| drop(found.columns.remove(6))).unwrap(),
            "postgres table \"t\" has no column payload of type jsonb"
        );
        assert_eq!(
            change(|found| found.columns[6].1 = "json".into()).unwrap(),
            "column payload of postgres table \"t\" has type json; it must be jsonb"
        );
    }
}
