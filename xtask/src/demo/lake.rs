//! The team's rows as Parquet in a bucket, and a query on them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use kollect_testkit::progress::say;
use kollect_testkit::s3::{ACCESS_KEY, Bucket};
use kollect_testkit::wait::eventually;
use kollect_testkit::{Cluster, RunDir, S3, python};

const READER: &[&str] = &["duckdb==2.0.0"];
const QUERY: &str = "SELECT cluster_name, kind, name, attr_image, attr_replicas \
    FROM read_parquet('inventory/*/*/*.parquet', hive_partitioning = true, union_by_name = true) \
    ORDER BY kind, name";

/// Points the sample's sink at a bucket, and the team's inventory at the sink.
pub(super) fn fill(cluster: &Cluster, server: &S3) -> Result<Bucket> {
    let bucket = server.create_bucket("lake")?;
    let access = format!("--from-literal=accessKeyID={ACCESS_KEY}");
    let secret = format!("--from-literal=secretAccessKey={}", server.secret_key());
    cluster.kubectl(&[
        "create",
        "secret",
        "generic",
        "lake-credentials",
        &access,
        &secret,
        "-n",
        "team-a",
    ])?;
    let place = format!(
        r#"{{"spec":{{"endpoint":"http://127.0.0.1:{}/{}"}}}}"#,
        server.port(),
        bucket.name
    );
    let reference = r#"[{"op":"add","path":"/spec/snapshotSinkRefs/-","value":{"name":"lake"}}]"#;
    for (object, kind, patch) in [
        ("kollectsnapshotsink/lake", "--type=merge", place.as_str()),
        ("kollectinventory/team-inventory", "--type=json", reference),
    ] {
        cluster.kubectl(&["patch", object, "-n", "team-a", kind, "-p", patch])?;
    }
    Ok(bucket)
}

/// Asks DuckDB, which knows nothing of Kollect, once the changed row is there.
pub(super) fn query(bucket: &Bucket, image: &str) -> Result<()> {
    let interpreter = python::environment(READER)?;
    let answer = eventually("the change in the lake", || {
        // As somebody would who mounts the bucket: DuckDB's own client for S3 is an extension that
        // is fetched from elsewhere.
        let copy = RunDir::new("lake")?;
        for key in bucket.objects()?.into_keys() {
            let file = copy.join(&key);
            fs::create_dir_all(file.parent().context("a directory")?)?;
            fs::write(file, bucket.read(&key)?.context("it is gone again")?)?;
        }
        let script = format!("import duckdb\nprint(duckdb.sql(\"\"\"{QUERY}\"\"\"))");
        let output = Command::new(&interpreter)
            .current_dir(copy.path())
            .args(["-c", &script])
            .output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let table = String::from_utf8(output.stdout)?;
        ensure!(table.contains(image), "{table}");
        Ok(table)
    })?;
    println!("\n$ duckdb -c \"{QUERY}\"\n{}", answer.trim_end());
    say(
        "the same rows, as Parquet in a bucket; their columns have the types that profiles declare",
    );
    Ok(())
}
