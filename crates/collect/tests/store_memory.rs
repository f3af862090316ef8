//! What the store takes, counted by the allocator.
//!
//! The allocator counts for the whole process, so this file holds a single test.

use std::alloc::System;

use kollect_collect::{
    gates::Version,
    plan::Plan,
    store::{Limits, Outcome, Stamp, Store},
};
use kollect_inventory::AttributesBuffer;
use kollect_watch::{ObjectIdentity, WatchScope};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "plan_support/mod.rs"]
mod support;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROWS: usize = 20_000;
const NAMESPACES: usize = 50;

fn live_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

/// A Deployment with eight attributes, some of them lists and maps.
fn fill(buffer: &mut AttributesBuffer, name: &str, index: usize) {
    let images: Vec<String> = (0..=index % 3)
        .map(|container| {
            format!(
                "registry.example/team-{}/{name}-{container}:v1.{index}",
                index % 20
            )
        })
        .collect();
    let object = json!({
        "containerCount": images.len(),
        "images": images,
        "labels": {
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/part-of": format!("suite-{}", index % 50),
            "team": format!("team-{}", index % 20),
        },
        "name": name,
        "ports": [8080, 8443],
        "privileged": false,
        "replicas": index % 7,
        "strategy": "RollingUpdate",
    });
    buffer.set(object.as_object().expect("it is one"));
}

#[test]
fn c_46_the_store_knows_what_it_takes_and_that_is_little() {
    let mut world = support::empty_world();
    for number in 0..NAMESPACES {
        let metadata = json!({"name": format!("load-{number:03}")});
        support::add(
            &mut world,
            json!({"kind": "Namespace", "metadata": metadata}),
        );
    }
    let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let metadata = json!({"namespace": "home", "name": "deployments"});
    support::add(
        &mut world,
        json!({"kind": "KollectProfile", "metadata": metadata, "spec": {"targetGVK": gvk}}),
    );
    support::add(
        &mut world,
        json!({"kind": "KollectTarget", "metadata": metadata, "spec": {"profileRef": "deployments"}}),
    );
    let plan = support::plan(&Plan::new(), &mut world);
    let delta = plan.delta_from(&Plan::new());

    let mut buffer = AttributesBuffer::new();
    fill(&mut buffer, &"x".repeat(40), 2);
    let store = Store::new(Limits::default(), || {});
    let region = Region::new(ALLOCATOR);
    store.apply(&plan, &delta);
    let feed = store
        .feed(&support::key("home/deployments"))
        .expect("the target collects");
    let listing = feed.begin_listing(WatchScope::All);
    let put = |buffer: &mut AttributesBuffer, index: usize, version: u64, value: usize| {
        let name = format!("app-{index:06}");
        let namespace = format!("load-{:03}", index % NAMESPACES);
        let uid = format!("0b7e3c1a-5d2f-4e60-9a8b-{index:012x}");
        fill(buffer, &name, value);
        let stamp = Stamp {
            epoch: plan.epoch(),
            version: Version::new(version),
        };
        let object = ObjectIdentity {
            namespace: namespace.as_str(),
            name: name.as_str(),
            uid: uid.as_str(),
        };
        // Only what the store itself does is counted below.
        let region = Region::new(ALLOCATOR);
        let outcome = listing.put(stamp, object, buffer.view());
        (outcome, region.change().allocations)
    };
    for index in 0..ROWS {
        assert_eq!(put(&mut buffer, index, 1, index).0, Outcome::Changed);
    }
    for index in 0..ROWS {
        assert_eq!(put(&mut buffer, index, 2, index), (Outcome::Unchanged, 0));
    }
    let counted = live_bytes(&region);
    let known = store.totals().bytes;
    let difference = counted.abs_diff(known);
    let per_row = |bytes: usize| bytes / ROWS;
    println!(
        "per row: allocated {} B, known to the store {} B",
        per_row(counted),
        per_row(known)
    );
    assert!(
        difference < counted / 20,
        "{counted} bytes are allocated, {known} are known"
    );

    // What an allocator in the manner of glibc adds: a word of its own, in steps of 16.
    let rows = store.rows(&support::key("home/deployments"));
    let rounding = |bytes: usize| (bytes + 8).next_multiple_of(16) - bytes;
    let rounded: usize = rows.iter().map(|row| rounding(row.heap_bytes())).sum();
    drop(rows);
    let total = per_row(counted + rounded);
    println!("per row, with what the allocator adds: {total} B");
    assert!(total <= 500, "{total} bytes per row");

    // All of it comes back.
    listing.finish(Version::new(3));
    let mut nothing = support::empty_world();
    let end = support::plan(&plan, &mut nothing);
    store.apply(&end, &end.delta_from(&plan));
    drop((feed, end));
    let left = live_bytes(&region).saturating_sub(per_row(counted));
    assert_eq!(store.totals().bytes, 0);
    assert!(left < 64 * 1024, "{left} bytes are left");
}
