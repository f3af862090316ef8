//! The statements. Values are parameters, always; only the name of the table stands in the text, and
//! names that could end it are refused before (`names`).

use kollect_api::sink::database::Bigquery;

use super::names::{Names, Partition};

/// The columns that every reader may rely on, in this order, with their types.
pub(super) const COLUMNS: [(&str, &str); 8] = [
    ("inventory_namespace", "STRING"),
    ("inventory_name", "STRING"),
    ("target_name", "STRING"),
    ("source_uid", "STRING"),
    ("cluster", "STRING"),
    ("resource_namespace", "STRING"),
    ("payload", "JSON"),
    ("exported_at", "TIMESTAMP"),
];

/// The column that tells contents apart without reading them.
pub(super) const HASH: &str = "content_hash";

/// What rows lie together by.
pub(super) const CLUSTERING: [&str; 4] = [
    "cluster",
    "inventory_namespace",
    "inventory_name",
    "resource_namespace",
];

const PARTITION: &str =
    "inventory_namespace = @inv_ns AND inventory_name = @inv_name AND cluster = @cluster";

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// One MERGE: the service.
    Merge,
    /// DELETE, then INSERT: the emulator, whose MERGE takes nothing but tables.
    DeleteInsert,
}

/// What is known of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// It has the column of hashes.
    pub(super) hashed: bool,
}

/// The text that creates the table by hand, for `existing` mode.
pub(super) fn expected_ddl(bigquery: &Bigquery, partitioned: bool) -> Option<String> {
    let names = Names::of(bigquery).ok()?;
    let mut columns: Vec<String> = COLUMNS
        .iter()
        .map(|(name, kind)| format!("  {name} {kind} NOT NULL"))
        .collect();
    columns.push(format!("  {HASH} INT64"));
    let partition = if partitioned {
        "\nPARTITION BY DATE(exported_at)"
    } else {
        ""
    };
    Some(format!(
        "CREATE TABLE IF NOT EXISTS {} (\n{}\n){partition}\nCLUSTER BY {}",
        names.quoted(),
        columns.join(",\n"),
        CLUSTERING.join(", ")
    ))
}

/// Keys and hashes of a partition.
pub(super) fn select(names: &Names, shape: Shape) -> String {
    let hash = if shape.hashed {
        HASH
    } else {
        "CAST(NULL AS INT64)"
    };
    format!(
        "SELECT target_name, source_uid, resource_namespace, CAST({hash} AS STRING) \
         FROM {} WHERE {PARTITION}",
        names.quoted()
    )
}

/// Writes and removes rows of a partition by their keys.
pub(super) fn merge(names: &Names, shape: Shape) -> String {
    let payload = "PARSE_JSON(src.payload_json, wide_number_mode=>'round')";
    // A row has changed when its content did, so what is the same stays untouched.
    let differs = if shape.hashed {
        format!("(dst.{HASH} IS NULL OR dst.{HASH} != src.{HASH})")
    } else {
        format!("TO_JSON_STRING(dst.payload) != TO_JSON_STRING({payload})")
    };
    let (set, column, value) = if shape.hashed {
        (
            format!(", {HASH} = src.{HASH}"),
            format!(", {HASH}"),
            format!(", src.{HASH}"),
        )
    } else {
        Default::default()
    };
    format!(
        "MERGE {table} AS dst
USING UNNEST(@rows) AS src
ON dst.inventory_namespace = @inv_ns AND dst.inventory_name = @inv_name AND dst.cluster = @cluster
  AND dst.target_name = src.target_name AND dst.source_uid = src.source_uid
WHEN MATCHED AND src.gone THEN DELETE
WHEN MATCHED AND {differs} THEN UPDATE SET
  payload = {payload}, resource_namespace = src.resource_namespace, exported_at = @exported_at{set}
WHEN NOT MATCHED BY TARGET AND NOT src.gone THEN INSERT
  (inventory_namespace, inventory_name, target_name, source_uid, cluster, resource_namespace, payload, exported_at{column})
  VALUES (@inv_ns, @inv_name, src.target_name, src.source_uid, @cluster, src.resource_namespace,
    {payload}, @exported_at{value})",
        table = names.quoted(),
    )
}

/// Removes every row of a partition.
pub(super) fn clear(names: &Names) -> String {
    format!("DELETE FROM {} WHERE {PARTITION}", names.quoted())
}

/// The rows of an emulator, which are one JSON text: it knows no parameters of records.
const EMULATED: &str = "(SELECT JSON_VALUE(r, '$.target_name') AS target_name, \
     JSON_VALUE(r, '$.source_uid') AS source_uid, \
     JSON_VALUE(r, '$.resource_namespace') AS resource_namespace, \
     JSON_VALUE(r, '$.payload_json') AS payload_json, \
     CAST(JSON_VALUE(r, '$.content_hash') AS INT64) AS content_hash, \
     JSON_VALUE(r, '$.gone') = 'true' AS gone FROM UNNEST(JSON_QUERY_ARRAY(@rows)) AS r) AS src";

/// Removes the rows of a partition that are about to be written or have to go, at an emulator.
pub(super) fn delete_keys(names: &Names) -> String {
    format!(
        "DELETE FROM {} WHERE {PARTITION} AND CONCAT(target_name, '/', source_uid) IN (\
         SELECT CONCAT(JSON_VALUE(r, '$.target_name'), '/', JSON_VALUE(r, '$.source_uid')) \
         FROM UNNEST(JSON_QUERY_ARRAY(@rows)) AS r)",
        names.quoted()
    )
}

/// Writes rows of a partition that are not there, at an emulator.
pub(super) fn insert(names: &Names, shape: Shape) -> String {
    let (column, value) = if shape.hashed {
        (format!(", {HASH}"), format!(", src.{HASH}"))
    } else {
        Default::default()
    };
    format!(
        "INSERT INTO {} (inventory_namespace, inventory_name, target_name, source_uid, cluster, \
         resource_namespace, payload, exported_at{column}) \
         SELECT @inv_ns, @inv_name, src.target_name, src.source_uid, @cluster, \
         src.resource_namespace, PARSE_JSON(src.payload_json, wide_number_mode=>'round'), \
         @exported_at{value} FROM {EMULATED} WHERE NOT src.gone",
        names.quoted()
    )
}

/// The parameters that name a partition.
pub(super) fn of_partition<'p>(partition: &Partition<'p>) -> [(&'static str, &'p str); 3] {
    [
        ("inv_ns", partition.namespace),
        ("inv_name", partition.name),
        ("cluster", partition.cluster),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            project: "acme".to_owned(),
            dataset: "inventory".to_owned(),
            table: "items".to_owned(),
        }
    }

    /// Whatever is written: one partition, parameters, and no value in the text.
    #[test]
    fn statements_stay_in_their_partition() {
        let names = names();
        for hashed in [true, false] {
            let shape = Shape { hashed };
            for text in [
                select(&names, shape),
                merge(&names, shape),
                clear(&names),
                delete_keys(&names),
            ] {
                assert!(text.contains("`acme.inventory.items`"), "{text}");
                for parameter in [
                    "inventory_namespace = @inv_ns",
                    "inventory_name = @inv_name",
                    "cluster = @cluster",
                ] {
                    assert!(text.contains(parameter), "{text}");
                }
            }
            assert_eq!(merge(&names, shape).contains(HASH), hashed);
            assert_eq!(insert(&names, shape).contains(", src.content_hash"), hashed);
        }
    }

    #[test]
    fn the_table_can_be_made_by_hand() {
        let block = Bigquery {
            project: "acme".to_owned(),
            dataset: "inventory".to_owned(),
            table: "items".to_owned(),
            ..Bigquery::default()
        };
        assert_eq!(
            expected_ddl(&block, true).unwrap(),
            "CREATE TABLE IF NOT EXISTS `acme.inventory.items` (
  inventory_namespace STRING NOT NULL,
  inventory_name STRING NOT NULL,
  target_name STRING NOT NULL,
  source_uid STRING NOT NULL,
  cluster STRING NOT NULL,
  resource_namespace STRING NOT NULL,
  payload JSON NOT NULL,
  exported_at TIMESTAMP NOT NULL,
  content_hash INT64
)
PARTITION BY DATE(exported_at)
CLUSTER BY cluster, inventory_namespace, inventory_name, resource_namespace"
        );
        assert!(!expected_ddl(&block, false).unwrap().contains("PARTITION"));
        assert_eq!(expected_ddl(&Bigquery::default(), true), None);
    }
}
