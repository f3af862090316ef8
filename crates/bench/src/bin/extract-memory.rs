//! Allocations of cloning, decoding and extracting, and what a stored row takes.

use std::alloc::System;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use kollect_api::KollectProfile;
use kollect_bench::{
    bar::{self, Bar},
    workload::{self, OBJECTS},
};
use kollect_collect::{
    Extractor, ObjectType, Projection,
    extract::Settings,
    gates::Version,
    plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ProfileFact, TargetKey, World},
    store::{Limits, Stamp, Store},
};
use kollect_inventory::AttributesBuffer;
use kollect_watch::{ObjectIdentity, Resource, WatchScope, access::Permission};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROWS: usize = 100_000;

fn main() -> ExitCode {
    let small: Vec<Value> = (0..OBJECTS).map(workload::small).collect();
    table("W1, small objects", &small, &workload::small_profile());
    let realistic: Vec<Value> = (0..OBJECTS).map(workload::realistic).collect();
    let profile = workload::realistic_profile();
    let allocations = table("W2, realistic objects", &realistic, &profile);
    let managed: Vec<Value> = (0..OBJECTS).map(workload::managed).collect();
    table("W2 with managed fields", &managed, &profile);
    let row = stored_row(profile);
    bar::report(&[
        Bar {
            name: "allocations of one extraction of W2",
            figure: allocations,
            most: 20.0,
            unit: "",
        },
        Bar {
            name: "one stored row of W2",
            figure: row,
            most: 500.0,
            unit: "B",
        },
    ])
}

/// Prints what each step allocates per object; returns the allocations of extraction.
fn table(name: &str, objects: &[Value], profile: &KollectProfile) -> f64 {
    let extractor = Extractor::new(profile, &Settings::default());
    let object_type = ObjectType::from(&profile.spec.target_gvk);
    let projection = Projection::new(object_type, [extractor.reads()]);
    let bytes = workload::bytes(objects);
    let mut buffer = AttributesBuffer::new();
    println!("\n{name}\n{:<28} {:>12} {:>12}", "", "allocations", "bytes");
    count("clone", objects, |object| drop(black_box(object.clone())));
    count("full decode", &bytes, |bytes| {
        let value: Value = serde_json::from_slice(bytes).expect("JSON");
        drop(black_box(value));
    });
    count("projected decode", &bytes, |bytes| {
        drop(black_box(projection.decode(bytes).expect("an object")));
    });
    count("extract", objects, |object| {
        let attributes = extractor.extract(object, &mut buffer);
        black_box(attributes.expect("every object fits the profile"));
    })
}

/// Prints and returns what `pass` allocates per object.
#[expect(clippy::cast_precision_loss, reason = "a few objects")]
fn count<T>(name: &str, objects: &[T], mut pass: impl FnMut(&T)) -> f64 {
    // Buffers that are used again grow once.
    objects.iter().for_each(&mut pass);
    let region = Region::new(ALLOCATOR);
    objects.iter().for_each(&mut pass);
    let change = region.change();
    let per_object = |total: usize| total as f64 / objects.len() as f64;
    let allocations = per_object(change.allocations + change.reallocations);
    let bytes = per_object(change.bytes_allocated);
    println!("{name:<28} {allocations:>12.1} {bytes:>12.0}");
    allocations
}

/// Fills a store with the rows of one target, and tells what one of them takes: everything that
/// the process has allocated since, and what the allocator adds to it.
#[expect(clippy::cast_precision_loss, reason = "a few bytes")]
fn stored_row(profile: KollectProfile) -> f64 {
    let extractor = Extractor::new(&profile, &Settings::default());
    let mut world = world(profile);
    let asked = Plan::new().next(&world);
    for review in &asked.reviews {
        world.access.set(review.clone(), Permission::Allowed);
    }
    let plan = asked.next(&world);
    let store = Store::new(Limits::default(), || {});
    store.apply(&plan, &plan.delta_from(&Plan::new()));
    let feed = store
        .feed(&TargetKey::namespaced("load-000", "deployments"))
        .expect("the target collects");
    let mut buffer = AttributesBuffer::new();

    let resident_before = resident();
    let region = Region::new(ALLOCATOR);
    let listing = feed.begin_listing(WatchScope::All);
    let mut json = 0;
    for index in 0..ROWS {
        let object = workload::realistic(index);
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default();
        let stamp = Stamp {
            epoch: plan.epoch(),
            version: Version::parse(text("resourceVersion")),
        };
        let key = ObjectIdentity {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
        };
        let attributes = extractor
            .extract(&object, &mut buffer)
            .expect("every object fits the profile");
        json += attributes.json_len();
        listing.put(stamp, key, attributes);
    }
    listing.finish(Version::new(1_000_000));
    let change = region.change();
    let live = (change.bytes_allocated - change.bytes_deallocated) as f64 / ROWS as f64;
    let resident = (resident().saturating_sub(resident_before)) as f64 / ROWS as f64;
    let kept = store.summary(feed.key()).map_or(0, |summary| summary.rows);
    assert_eq!(kept, ROWS, "all objects have a row");
    println!("\n{ROWS} rows of W2 in the store, bytes per row");
    println!(
        "{:<28} {:>12.0}",
        "attributes as JSON",
        json as f64 / ROWS as f64
    );
    println!("{:<28} {live:>12.0}", "asked of the allocator");
    println!("{:<28} {resident:>12.0}", "resident memory");
    live.max(resident)
}

/// Bytes of memory that this process occupies; zero where nobody tells.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| {
            let pages = text.split(' ').nth(1)?;
            pages.parse::<usize>().ok()
        });
    pages.unwrap_or_default() * 4096
}

/// A cluster in which one target collects all Deployments.
fn world(profile: KollectProfile) -> World {
    let mut world = World::default();
    let resource = Resource {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        plural: "deployments".to_owned(),
        namespaced: true,
    };
    let kind = profile.spec.target_gvk.clone();
    world.kinds.set(kind, KindFact::Served(Arc::new(resource)));
    let namespaces = (0..50).map(|index| (format!("load-{index:03}"), NamespaceFacts::default()));
    world.namespaces = NamespaceListing::Complete(namespaces.collect());
    let key = ("load-000".to_owned(), "deployments".to_owned());
    let profile = ProfileFact::Found(Arc::new(profile));
    world.profiles.insert(key, profile);
    let target = json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectTarget",
        "metadata": {"name": "deployments", "namespace": "load-000"},
        "spec": {"profileRef": "deployments"},
    });
    let target = serde_json::from_value(target).expect("a target");
    world.targets.push(Arc::new(target));
    world
}
