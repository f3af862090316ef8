//! Times of cloning, decoding and extracting, as multiples of each other.

use std::hint::black_box;
use std::process::ExitCode;

use kollect_bench::bar::{self, Bar};
use kollect_bench::measure::{self, Subject, Timing};
use kollect_bench::workload::{self, OBJECTS};
use kollect_collect::extract::Settings;
use kollect_collect::{DecodedObject, Extractor, ObjectType, Projection};
use kollect_inventory::AttributesBuffer;
use serde::de::IgnoredAny;
use serde_json::Value;

fn main() -> ExitCode {
    let small: Vec<Value> = (0..OBJECTS).map(workload::small).collect();
    extraction("W1, small objects", &small, &workload::small_profile());
    let realistic: Vec<Value> = (0..OBJECTS).map(workload::realistic).collect();
    let profile = workload::realistic_profile();
    let w2 = extraction("W2, realistic objects", &realistic, &profile);
    let managed: Vec<Value> = (0..OBJECTS).map(workload::managed).collect();
    let decode = decoding("W2 with managed fields", &managed, &profile);
    bar::report(&[
        Bar {
            name: "extraction of W2 against a clone of the object",
            figure: w2,
            most: 0.25,
            unit: "x",
        },
        Bar {
            name: "projected decode of the 6 KB object against a full decode",
            figure: decode,
            most: 0.3,
            unit: "x",
        },
    ])
}

/// Measures extraction against a clone of the object; returns the ratio.
fn extraction(name: &str, objects: &[Value], profile: &kollect_api::KollectProfile) -> f64 {
    let extractor = Extractor::new(profile, &Settings::default());
    let mut buffer = AttributesBuffer::new();
    let clone = Subject::new("clone", objects, |object| drop(black_box(object.clone())));
    let extract = Subject::new("extract", objects, |object| {
        let attributes = extractor.extract(black_box(object), &mut buffer);
        black_box(attributes.expect("every object fits the profile"));
    });
    // What a watch hands over: the same objects, decoded as far as the profile reads them.
    let object_type = ObjectType::from(&profile.spec.target_gvk);
    let projection = Projection::new(object_type, [extractor.reads()]);
    let bytes = workload::bytes(objects);
    let decode = |bytes: &Vec<u8>| projection.decode(bytes).expect("an object");
    let decoded: Vec<DecodedObject> = bytes.iter().map(decode).collect();
    let mut second_buffer = AttributesBuffer::new();
    let extract_decoded = Subject::new("extract, projected object", &decoded, |object| {
        let attributes = extractor.extract(black_box(object.value()), &mut second_buffer);
        black_box(attributes.expect("every object fits the profile"));
    });
    let timings = measure::times(vec![clone, extract, extract_decoded], objects.len());
    table(name, objects, &timings);
    timings[1].ratio
}

/// Measures projected decoding against a full decode; returns the ratio.
fn decoding(name: &str, objects: &[Value], profile: &kollect_api::KollectProfile) -> f64 {
    let extractor = Extractor::new(profile, &Settings::default());
    let object_type = ObjectType::from(&profile.spec.target_gvk);
    let projection = Projection::new(object_type, [extractor.reads()]);
    let bytes = workload::bytes(objects);
    let full = Subject::new("full decode", &bytes, |bytes| {
        let value: Value = serde_json::from_slice(black_box(bytes)).expect("JSON");
        drop(black_box(value));
    });
    let projected = Subject::new("projected decode", &bytes, |bytes| {
        drop(black_box(
            projection.decode(black_box(bytes)).expect("an object"),
        ));
    });
    let skip = Subject::new("skip everything", &bytes, |bytes| {
        let skipped: IgnoredAny = serde_json::from_slice(black_box(bytes)).expect("JSON");
        black_box(skipped);
    });
    let mut buffer = AttributesBuffer::new();
    let both = Subject::new("projected decode, extract", &bytes, |bytes| {
        let object = projection.decode(black_box(bytes)).expect("an object");
        let attributes = extractor.extract(object.value(), &mut buffer);
        black_box(attributes.expect("every object fits the profile"));
    });
    let timings = measure::times(vec![full, projected, both, skip], objects.len());
    table(name, objects, &timings);
    timings[1].ratio
}

fn table(name: &str, objects: &[Value], timings: &[Timing]) {
    let bytes: usize = workload::bytes(objects).iter().map(Vec::len).sum();
    println!("\n{name}: {} bytes of JSON", bytes / objects.len());
    println!("{:<28} {:>12} {:>8}", "", "ns/object", "ratio");
    for timing in timings {
        let Timing {
            name,
            nanoseconds,
            ratio,
        } = timing;
        println!("{name:<28} {nanoseconds:>12.0} {ratio:>8.3}");
    }
}
