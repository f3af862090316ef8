//! What a stored row costs, counted by the allocator.
//!
//! The allocator counts for the whole process, so this file holds a single test.

use std::alloc::System;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row, Snapshot, TargetKind};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROWS: usize = 10_000;
const NAMESPACES: usize = 50;

/// What an allocator in the manner of glibc takes for a request: a word of its own, in steps of 16.
fn rounded(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

fn live_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

/// A Deployment with eight attributes: name, labels, images of one to three containers, replicas,
/// and four computed values, one of them the images again.
fn write_attributes(buffer: &mut AttributesBuffer, name: &str, index: usize) {
    let containers = index % 3 + 1;
    let image = |container: usize| {
        let version = index % 30;
        format!(
            "registry.example/team-{}/{name}-{container}:v1.{version}.{container}",
            index % 20
        )
    };
    let mut object = buffer.start();
    object
        .attribute("containerCount")
        .unsigned(containers as u64);
    for list in ["imageList", "images"] {
        let mut images = object.attribute(list).array();
        for container in 0..containers {
            images.item().string(&image(container));
        }
    }
    let mut labels = object.attribute("labels").object();
    labels.member("app.kubernetes.io/name").string(name);
    labels
        .member("app.kubernetes.io/part-of")
        .string(&format!("suite-{}", index % 50));
    labels
        .member("team")
        .string(&format!("team-{}", index % 20));
    labels.end();
    object.attribute("name").string(name);
    object.attribute("privileged").bool(false);
    object.attribute("replicas").unsigned(index as u64 % 7 + 1);
    object.attribute("strategy").string("RollingUpdate");
}

#[test]
fn a_row_is_one_small_allocation() {
    one_allocation_per_row();
    at_most_500_bytes_per_stored_row();
}

fn at_most_500_bytes_per_stored_row() {
    let mut buffer = AttributesBuffer::new();
    let mut attribute_bytes = 0;
    let mut interner = Interner::new();
    let mut rows: Vec<Row> = Vec::with_capacity(ROWS);
    let region = Region::new(ALLOCATOR);
    for index in 0..ROWS {
        let name = format!("app-{index:06}");
        write_attributes(&mut buffer, &name, index);
        attribute_bytes += buffer.view().to_json().as_str().len();
        let namespace = format!("load-{:03}", index % NAMESPACES);
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "load-000",
            target_name: "deployments",
            namespace: &namespace,
            group: "apps",
            version: "v1",
            kind: "Deployment",
        });
        let uid = format!("0b7e3c1a-5d2f-4e60-9a8b-{index:012x}");
        rows.push(interner.row(&origin, &name, &uid, buffer.view()));
    }
    drop(buffer);
    let counted = live_bytes(&region);

    // The accounting is exact: it is what the allocator was asked for.
    let in_rows: usize = rows.iter().map(Row::heap_bytes).sum();
    let in_origins: usize = rows[..NAMESPACES]
        .iter()
        .map(|row| row.origin().heap_bytes())
        .sum();
    assert_eq!(
        interner.len(),
        NAMESPACES + 1,
        "origins and one set of names"
    );
    let tables = counted - in_rows - in_origins;
    assert!(
        tables < 64 * NAMESPACES,
        "{tables} bytes to find what is shared"
    );

    // What a store adds: an index by uid, and a snapshot of it all.
    let region = Region::new(ALLOCATOR);
    let hasher = DefaultHashBuilder::default();
    let mut index: HashTable<Row> = HashTable::new();
    for row in &rows {
        let hash = |row: &Row| hasher.hash_one(row.uid());
        index.insert_unique(hash(row), row.clone(), hash);
    }
    let snapshot = Snapshot::new(rows.iter().cloned());
    let in_store = live_bytes(&region);

    let rounding: usize = rows
        .iter()
        .map(|row| rounded(row.heap_bytes()) - row.heap_bytes())
        .sum();
    let total = counted + rounding + in_store;
    let per_row = |bytes: usize| bytes / ROWS;
    println!(
        "per row: attributes {} B, row {} B, with rounding, origins, index and snapshot {} B",
        per_row(attribute_bytes),
        per_row(in_rows),
        per_row(total)
    );
    assert_eq!((index.len(), snapshot.len()), (ROWS, ROWS));
    assert!(per_row(total) <= 500, "{} bytes per row", per_row(total));
}

fn one_allocation_per_row() {
    let mut interner = Interner::new();
    let origin = interner.origin(OriginParts {
        owner: TargetKind::Target,
        target_namespace: "team-a",
        target_name: "deployments",
        namespace: "team-a",
        group: "apps",
        version: "v1",
        kind: "Deployment",
    });
    let mut buffer = AttributesBuffer::new();
    write_attributes(&mut buffer, "app-000001", 1);
    // The first row of its kind brings the shared names.
    let first = interner.row(&origin, "app-000000", "uid-of-any-form", buffer.view());
    let region = Region::new(ALLOCATOR);
    let row = interner.row(&origin, "app-000001", "uid-of-any-form", buffer.view());
    assert_eq!(live_bytes(&region), row.heap_bytes());
    let copy = row.clone();
    assert_eq!(live_bytes(&region), row.heap_bytes());
    assert!(copy.is_same(&row) && !first.is_same(&row));
    let names = [
        "containerCount",
        "imageList",
        "images",
        "labels",
        "name",
        "privileged",
        "replicas",
        "strategy",
    ];
    // A name with quotes, colon and comma or brace is shared; values have a separator between.
    let shared: usize = names.iter().map(|name| name.len() + 4).sum();
    let values = buffer.view().to_json().as_str().len() - shared - "}".len() + names.len() - 1;
    let text = "app-000001".len() + "uid-of-any-form".len() + values;
    assert_eq!(row.heap_bytes(), 56 + text.next_multiple_of(8));
}
