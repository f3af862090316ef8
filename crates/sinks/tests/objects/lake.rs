//! Parquet files, as two readers that know nothing of us read them.

use std::{path::Path, process::Command, sync::Arc};

use kollect_sinks::{Delivery, Receipt, Why};
use kollect_testkit::{RunDir, python, s3::Bucket};
use serde_json::{Value, json};

use crate::stage::{Line, Sketch, blocking, bucket, delivery, objects, rows, types};

const AT: &str = "2026-08-01T12:00:00.123456789Z";
const READERS: &[&str] = &["duckdb==2.0.0", "pyarrow==26.0.1"];

/// Runs a script in the directory of a bucket's copy; it prints JSON.
async fn python(directory: &Path, script: &'static str) -> Value {
    let directory = directory.to_owned();
    blocking(move || {
        let interpreter = python::environment(READERS).expect("the readers");
        let output = Command::new(interpreter)
            .current_dir(&directory)
            .args(["-c", script])
            .output()
            .expect("python3");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    })
    .await
}

/// A copy of what a bucket holds.
async fn copy(bucket: &Bucket) -> RunDir {
    let copy = RunDir::new("lake").expect("a directory");
    for (path, bytes) in objects(bucket).await {
        let file = copy.join(&path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    copy
}

async fn deliver(bucket: &Bucket, port: u16, extra: Value, delivery: &Delivery) -> Receipt {
    let sink = Sketch::s3(bucket, port, extra)
        .open()
        .await
        .expect("a sink");
    sink.deliver(delivery).await.expect("a delivery")
}

fn vector() -> Vec<Line<'static>> {
    vec![
        (
            "Deployment",
            "team-a",
            "api",
            json!({"image": "nginx:1.27", "replicas": 3, "big": 1_000_000, "m": {"b": 1, "a": "x"},
                "bool": true, "empty": "", "l": [1, "x"]}),
        ),
        ("ConfigMap", "", "cfg", Value::Null),
    ]
}

/// S42, with the better rules: numbers as they are written.
#[tokio::test(flavor = "multi_thread")]
async fn s42_hot_columns_are_text() {
    let (bucket, port) = bucket("hot").await;
    let extra = json!({
        "cluster": "prod",
        "objectStore": {
            "format": "parquet",
            "partitioning": "generation",
            "hotAttributes": ["image", "replicas", "big", "m", "bool", "empty", "l", "app.kubernetes.io/name", "IMAGE"],
        },
    });
    deliver(&bucket, port, extra, &delivery(rows(&vector()), AT)).await;
    let copy = copy(&bucket).await;
    let found = python(
        copy.path(),
        r#"
import json, glob, pyarrow.parquet as pq
[path] = glob.glob("inventory/cluster=prod/ns=team-a/name=web/generation=4.parquet")
table = pq.ParquetFile(path).read()
rows = {}
for row in table.to_pylist():
    row["exported_at"] = int(row["exported_at"].timestamp() * 1_000_000 + 0.5)
    rows[row["name"]] = row
print(json.dumps({"columns": table.column_names, "rows": rows}))
"#,
    )
    .await;
    assert_eq!(
        found["columns"],
        json!([
            "api_version",
            "attr_app_kubernetes_ioname",
            "attr_big",
            "attr_bool",
            "attr_empty",
            "attr_image",
            "attr_l",
            "attr_m",
            "attr_replicas",
            "attributes",
            "cluster",
            "exported_at",
            "group",
            "inventory_name",
            "inventory_namespace",
            "kind",
            "name",
            "namespace",
            "target_name",
            "target_namespace",
            "uid"
        ])
    );
    let api = json!({
        "api_version": "v1", "attr_app_kubernetes_ioname": null, "attr_big": "1000000",
        "attr_bool": "true", "attr_empty": null, "attr_image": "nginx:1.27", "attr_l": "[1,\"x\"]",
        "attr_m": "{\"a\":\"x\",\"b\":1}", "attr_replicas": "3",
        "attributes": "{\"big\":1000000,\"bool\":true,\"empty\":\"\",\"image\":\"nginx:1.27\",\"l\":[1,\"x\"],\"m\":{\"a\":\"x\",\"b\":1},\"replicas\":3}",
        "cluster": "prod", "exported_at": 1_785_585_600_123_456_u64, "group": "apps",
        "inventory_name": "web", "inventory_namespace": "team-a", "kind": "Deployment",
        "name": "api", "namespace": "team-a", "target_name": "deploys",
        "target_namespace": "team-a", "uid": "uid-api",
    });
    assert_eq!(found["rows"]["api"], api);
    let cfg = json!({
        "api_version": "v1", "attr_app_kubernetes_ioname": null, "attr_big": null,
        "attr_bool": null, "attr_empty": null, "attr_image": null, "attr_l": null, "attr_m": null,
        "attr_replicas": null, "attributes": "null", "cluster": "prod",
        "exported_at": 1_785_585_600_123_456_u64, "group": null, "inventory_name": "web",
        "inventory_namespace": "team-a", "kind": "ConfigMap", "name": "cfg", "namespace": "",
        "target_name": "deploys", "target_namespace": "team-a", "uid": "uid-cfg",
    });
    assert_eq!(found["rows"]["cfg"], cfg);
}

fn typed() -> Vec<Line<'static>> {
    vec![
        (
            "Deployment",
            "team-b",
            "zoë-🚀",
            json!({"name": "inner", "replicas": 3, "load": 0.5, "ready": true, "empty": "",
                "images": ["a", 1, null, ["b"]], "ports": [80, 443], "labels": {"a": "x", "n": 1},
                "raw": {"k": [1]}}),
        ),
        (
            "Deployment",
            "team-a",
            "api",
            json!({"name": null, "replicas": "three", "load": 2, "images": [], "ports": [80, "https"],
                "labels": {}, "raw": "text"}),
        ),
        ("ConfigMap", "", "cfg", Value::Null),
    ]
}

fn declared() -> Vec<(&'static str, &'static str)> {
    vec![
        ("name", "string"),
        ("replicas", "int"),
        ("load", "float"),
        ("ready", "bool"),
        ("empty", "string"),
        ("images", "list"),
        ("ports", "list<int>"),
        ("labels", "map"),
        ("raw", ""),
    ]
}

/// L5, L6, L7: types, nulls, unicode, nested lists and maps, in both readers.
#[tokio::test(flavor = "multi_thread")]
async fn l5_l6_l7_typed_columns_in_two_readers() {
    let (bucket, port) = bucket("typed").await;
    let extra = json!({"cluster": "lab", "serialization": {"format": "parquet"}});
    let mut typed_rows = delivery(rows(&typed()), AT);
    typed_rows.documents.types = types(&declared());
    let receipt = deliver(&bucket, port, extra, &typed_rows).await;
    let skipped = receipt.skipped.expect("what does not fit is told");
    assert_eq!(skipped.rows, 2);
    assert_eq!(skipped.why, Why::OtherType);
    assert!(
        skipped.first.starts_with("Deployment/team-a/api"),
        "{skipped}"
    );
    let copy = copy(&bucket).await;
    let found = python(
        copy.path(),
        r#"
import json, duckdb, pyarrow.parquet as pq
glob = "inventory/**/*.parquet"
con = duckdb.connect()
columns = {name: kind for name, kind, *_ in con.execute(f"describe select * from read_parquet('{glob}', hive_partitioning=true)").fetchall()}
con.execute(f"create table t as select * from read_parquet('{glob}', hive_partitioning=true)")
names = [name for name in columns if name.startswith("attr_")]
rows = con.execute(f"select name, {', '.join(names)} from t").fetchall()
path = "inventory/cluster_name=lab/inventory=team-a.web/part-0001.parquet"
file = pq.ParquetFile(path)
table = file.read()
group = file.metadata.row_group(0)
def plain(value):
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value
print(json.dumps({
    "columns": columns,
    "duckdb": {row[0]: dict(zip(names, row[1:])) for row in rows},
    "pyarrow": {row["name"]: {name: plain(row[name]) for name in names} for row in table.to_pylist()},
    "order": table.column("name").to_pylist(),
    "keys": con.execute("select distinct cluster_name, inventory from t").fetchall(),
    "metadata": {k.decode(): v.decode() for k, v in file.metadata.metadata.items()},
    "codec": group.column(0).compression,
    "statistics": [group.column(i).statistics.max for i in range(group.num_columns) if group.column(i).path_in_schema == "kind"],
    "bloom": con.execute(f"select bloom_filter_length > 0 from parquet_metadata('{path}') where path_in_schema = 'name'").fetchone()[0],
}))
"#,
    )
    .await;
    for (column, expected) in [
        ("attr_name", "VARCHAR"),
        ("attr_replicas", "BIGINT"),
        ("attr_load", "DOUBLE"),
        ("attr_ready", "BOOLEAN"),
        ("attr_images", "VARCHAR[]"),
        ("attr_ports", "BIGINT[]"),
        ("attr_labels", "MAP(VARCHAR, VARCHAR)"),
        ("attr_raw", "VARCHAR"),
        ("name", "VARCHAR"),
        ("exported_at", "TIMESTAMP WITH TIME ZONE"),
        ("cluster_name", "VARCHAR"),
    ] {
        assert_eq!(found["columns"][column], expected, "{column}");
    }
    let full = json!({
        "attr_name": "inner", "attr_replicas": 3, "attr_load": 0.5, "attr_ready": true,
        "attr_empty": "", "attr_images": ["a", "1", null, "[\"b\"]"], "attr_ports": [80, 443],
        "attr_labels": {"a": "x", "n": "1"}, "attr_raw": "{\"k\":[1]}",
    });
    let odd = json!({
        "attr_name": null, "attr_replicas": null, "attr_load": 2.0, "attr_ready": null,
        "attr_empty": null, "attr_images": [], "attr_ports": null, "attr_raw": "\"text\"",
    });
    for reader in ["duckdb", "pyarrow"] {
        let rows = &found[reader];
        assert_eq!(rows["zoë-🚀"], full, "{reader}");
        for (column, value) in odd.as_object().unwrap() {
            assert_eq!(rows["api"][column], *value, "{reader} {column}");
        }
        let nothing = rows["cfg"]
            .as_object()
            .unwrap()
            .values()
            .all(Value::is_null);
        assert!(nothing, "{reader}");
    }
    // The inventory's name hides nobody's.
    assert_eq!(found["keys"], json!([["lab", "team-a.web"]]));
    assert_eq!(found["order"], json!(["cfg", "api", "zoë-🚀"]));
    assert_eq!(found["metadata"]["kollect.cluster"], "lab");
    assert_eq!(found["metadata"]["kollect.inventory"], "team-a/web");
    assert_eq!(
        found["metadata"]["kollect.checksum"]
            .as_str()
            .unwrap()
            .len(),
        64
    );
    assert_eq!(found["codec"], "ZSTD");
    assert_eq!(found["statistics"], json!(["Deployment"]));
    assert_eq!(found["bloom"], true);
}

/// L12 and a schema that grows: files of two clusters with different columns read as one table, and
/// the manifest names what belongs together.
#[tokio::test(flavor = "multi_thread")]
async fn l12_columns_grow_and_files_of_clusters_read_as_one() {
    let (bucket, port) = bucket("grow").await;
    let of = |cluster: &str| json!({"cluster": cluster, "objectStore": {"format": "parquet"}});
    let mut first = delivery(rows(&typed()), AT);
    first.documents.types = types(&[("replicas", "int")]);
    deliver(&bucket, port, of("east"), &first).await;
    deliver(&bucket, port, of("west"), &first).await;
    let mut second = delivery(rows(&typed()[..2]), "2026-08-01T13:00:00Z");
    second.documents.types = types(&[("replicas", "string"), ("ready", "bool")]);
    let receipt = deliver(&bucket, port, of("west"), &second).await;
    let note = receipt.note.expect("a change of type is told");
    assert!(note.contains("attr_replicas__text"), "{note}");
    // Nothing is left to be done, and the columns stay.
    second.documents.types = types(&[("ready", "bool")]);
    let receipt = deliver(&bucket, port, of("west"), &second).await;
    assert_eq!((receipt.written, receipt.note), (0, None));
    let copy = copy(&bucket).await;
    let found = python(
        copy.path(),
        r#"
import json, duckdb, hashlib, pathlib
con = duckdb.connect()
con.execute("create table t as select * from read_parquet('inventory/**/*.parquet', hive_partitioning=true, union_by_name=true)")
latest = [json.loads(path.read_text()) | {"dir": str(path.parent)} for path in sorted(pathlib.Path("inventory").glob("**/latest.json"))]
print(json.dumps({
    "counts": con.execute("select cluster_name, count(*) from t group by 1 order by 1").fetchall(),
    "west": con.execute("select name, attr_replicas, attr_replicas__text, attr_ready from t where cluster_name = 'west' order by name").fetchall(),
    "true": [hashlib.sha256((pathlib.Path(l["dir"]) / f["path"]).read_bytes()).hexdigest() == f["sha256"] for l in latest for f in l["files"]],
    "rows": [l["rows"] for l in latest],
}))
"#,
    )
    .await;
    assert_eq!(found["counts"], json!([["east", 3], ["west", 2]]));
    assert_eq!(
        found["west"],
        json!([["api", null, "three", null], ["zoë-🚀", 3, null, true]])
    );
    assert_eq!(found["true"], json!([true, true]));
    assert_eq!(found["rows"], json!([3, 2]));
}

/// 05b §2.4: files are compressed as asked, and both readers read them.
#[tokio::test(flavor = "multi_thread")]
async fn codecs_are_the_ones_asked_for() {
    let (bucket, port) = bucket("codecs").await;
    for codec in ["none", "gzip", "snappy", "zstd"] {
        let extra = json!({
            "cluster": codec, "serialization": {"format": "parquet", "compression": codec},
        });
        deliver(&bucket, port, extra, &delivery(rows(&vector()), AT)).await;
    }
    let copy = copy(&bucket).await;
    let found = python(
        copy.path(),
        r#"
import json, glob, duckdb, pyarrow.parquet as pq
con = duckdb.connect()
found = {}
for path in sorted(glob.glob("inventory/*/*/part-0001.parquet")):
    file = pq.ParquetFile(path)
    codecs = {file.metadata.row_group(0).column(i).compression for i in range(file.metadata.num_columns)}
    rows = con.execute(f"select count(*) from '{path}'").fetchone()[0]
    found[path.split("/")[1].split("=")[1]] = [sorted(codecs), file.read().num_rows, rows]
print(json.dumps(found))
"#,
    )
    .await;
    let expected = json!({
        "none": [["UNCOMPRESSED"], 2, 2], "gzip": [["GZIP"], 2, 2],
        "snappy": [["SNAPPY"], 2, 2], "zstd": [["ZSTD"], 2, 2],
    });
    assert_eq!(found, expected);
}

/// The queries for DuckDB in the documentation give answers.
#[tokio::test(flavor = "multi_thread")]
async fn documented_queries_work() {
    let (bucket, port) = bucket("queries").await;
    let of = |images: &[&str], at: &str| {
        let lines: Vec<Line<'_>> = images
            .iter()
            .map(|image| ("Deployment", "team-a", *image, json!({"image": image})))
            .collect();
        let mut delivery = delivery(rows(&lines), at);
        delivery.documents.types = types(&[("image", "string")]);
        delivery
    };
    let now = jiff::Timestamp::now();
    let yesterday = (now - jiff::SignedDuration::from_hours(24)).to_string();
    let lake = json!({"cluster": "prod-west", "serialization": {"format": "parquet"}});
    deliver(&bucket, port, lake.clone(), &of(&["new", "both"], AT)).await;
    let mut dated = lake;
    dated["objectStore"] = json!({"partitioning": "dated"});
    let mut history = Sketch::s3(&bucket, port, dated);
    "history".clone_into(&mut history.name);
    let history = history.open().await.unwrap();
    for (images, at) in [
        (["old", "both"], yesterday),
        (["new", "both"], now.to_string()),
    ] {
        history.deliver(&of(&images, &at)).await.unwrap();
    }
    let copy = copy(&bucket).await;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sinks/object-stores.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let queries: Vec<String> = docs
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .filter(|query| query.contains("read_parquet"))
        .map(|query| query.replace("s3://inventory-lake/exports/", ""))
        .collect();
    let text = serde_json::to_string(&queries).unwrap();
    std::fs::write(copy.join("queries.json"), text).unwrap();
    let found = python(
        copy.path(),
        r#"
import json, duckdb
con = duckdb.connect()
con.execute("SET TimeZone = 'UTC'")
answers = []
for query in json.load(open("queries.json")):
    for statement in duckdb.extract_statements(query):
        answer = con.execute(statement)
    answers.append(sorted(answer.fetchall()))
print(json.dumps(answers))
"#,
    )
    .await;
    assert_eq!(
        found,
        json!([
            [
                ["prod-west", "team-a", "both", "both"],
                ["prod-west", "team-a", "new", "new"]
            ],
            [[2]],
            [["old"]],
        ])
    );
}

/// Many rows: several row groups, one file, all of them there; and none at all is a file as well.
#[tokio::test(flavor = "multi_thread")]
async fn many_rows_and_none() {
    let (bucket, port) = bucket("many").await;
    let extra = json!({"cluster": "lab", "objectStore": {"format": "parquet"}});
    let names: Vec<String> = (0..130_000).map(|n| format!("cm-{n:06}")).collect();
    let lines: Vec<Line<'_>> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            (
                "ConfigMap",
                "team-a",
                &**name,
                json!({"n": n, "text": format!("value {n}")}),
            )
        })
        .collect();
    let mut many = delivery(rows(&lines), AT);
    many.documents.types = types(&[("n", "int"), ("text", "string")]);
    deliver(&bucket, port, extra.clone(), &many).await;
    let script = r#"
import json, duckdb, glob
[path] = glob.glob("inventory/*/*/*.parquet")
con = duckdb.connect()
print(json.dumps([
    con.execute(f"select count(*), count(distinct name), coalesce(sum(attr_n), 0)::bigint from '{path}'").fetchone(),
    con.execute(f"select count(distinct row_group_id) from parquet_metadata('{path}')").fetchone()[0],
]))
"#;
    let found = python(copy(&bucket).await.path(), script).await;
    let sum: u64 = (0..130_000).sum();
    assert_eq!(found, json!([[130_000, 130_000, sum], 2]));
    let mut none = delivery(rows(&[]), AT);
    none.documents.types = Arc::clone(&many.documents.types);
    deliver(&bucket, port, extra, &none).await;
    let found = python(copy(&bucket).await.path(), script).await;
    assert_eq!(found[0], json!([0, 0, 0]));
}
