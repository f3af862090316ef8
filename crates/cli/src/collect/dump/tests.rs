//! Every form that a dump may have.

use super::*;
use crate::collect::report::Level;

fn read(files: &[(&str, &[u8])]) -> Result<Dump> {
    let place = tempfile::tempdir()?;
    for (name, content) in files {
        std::fs::write(place.path().join(name), content)?;
    }
    let report = Report::new(Level::Error, None);
    Dump::read(&[place.path().to_owned()], true, &report)
}

fn seen(content: &str) -> Result<Vec<String>> {
    let dump = read(&[("dump.json", content.as_bytes())])?;
    let mut seen = Vec::new();
    for (kind, facts) in &dump.kinds {
        let Gvk {
            group,
            version,
            kind,
        } = kind;
        seen.push(format!("{group}/{version}/{kind} {}", facts.objects));
    }
    Ok(seen)
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"}}"#;

#[test]
fn every_form_of_a_dump() {
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{POD},{POD}]}}"#);
    let sorted = format!(r#"{{"apiVersion":"v1","items":[{POD},{POD}],"kind":"List"}}"#);
    let typed = r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{},
        "items":[{"metadata":{"name":"d","namespace":"n"}}]}"#;
    let typed_late = r#"{"apiVersion":"apps/v1","items":[{"metadata":{"name":"d","namespace":"n"}}],"kind":"DeploymentList"}"#;
    let yaml = "---\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n}\n---\n";
    let yaml_list = "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n}}\n";
    let yaml_typed = "kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: a, namespace: n}\n";
    let empty = r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#;
    let cases: [(&str, &[&str]); 12] = [
        (POD, &["/v1/Pod 1"]),
        (&format!("{POD}\n{POD}"), &["/v1/Pod 2"]),
        (&list, &["/v1/Pod 2"]),
        (&sorted, &["/v1/Pod 2"]),
        (&format!("[{list}]"), &["/v1/Pod 2"]),
        (typed, &["apps/v1/Deployment 1"]),
        (typed_late, &["apps/v1/Deployment 1"]),
        (yaml, &["/v1/Pod 1"]),
        (yaml_list, &["/v1/Pod 1"]),
        (yaml_typed, &["/v1/Pod 1"]),
        (empty, &["/v1/Pod 0"]),
        ("", &[]),
    ];
    for (text, expected) in cases {
        let seen = seen(text).unwrap_or_else(|error| panic!("{error:#}: {text}"));
        assert_eq!(seen, expected, "{text}");
    }
}

#[test]
fn what_is_no_dump_is_refused_without_quoting_it() {
    for text in [
        "{\"a\": secret-value",
        "[1]",
        "{\"metadata\":{\"name\":\"a\"}}",
        "a: [secret-value",
        "secret-value",
        "{\"kind\":\"List\",\"items\":[1]}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":[1]}}",
    ] {
        let error = format!("{:#}", seen(text).expect_err(text));
        assert!(
            error.contains("dump.json") && !error.contains("secret-value"),
            "{error}"
        );
    }
}

#[test]
fn e13_an_odd_object_is_named() {
    let error = |item: &str| {
        let text = format!(r#"{{"kind":"List","items":[{POD},{item}]}}"#);
        format!("{:#}", seen(&text).unwrap_err())
    };
    let odd = error(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":7,"namespace":"n"}}"#);
    assert!(
        odd.contains("item 2 of the list: Pod n/: metadata.name is no text"),
        "{odd}"
    );
    let broken = error("7");
    assert!(
        broken.contains("item 2 of the list: this is no"),
        "{broken}"
    );
    // Fields that nobody needs may be as odd as they like.
    let null = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n","annotations":{"x":null},"labels":{"a":"b","c":7}}}"#;
    let dump = read(&[("d.json", null.as_bytes())]).unwrap();
    let NamespaceListing::Complete(namespaces) = dump.namespaces() else {
        panic!("all are known");
    };
    assert_eq!(namespaces["n"].labels.len(), 1);
}

#[test]
fn e15_packed_dumps_are_unpacked() {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(POD.as_bytes()).unwrap();
    let yaml = b"apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: n}\n";
    let files: [(&str, &[u8]); 4] = [
        ("a.json.gz", &gzip.finish().unwrap()),
        (
            "b.yaml.zst",
            &zstd::stream::encode_all(&yaml[..], 1).unwrap(),
        ),
        ("notes.gz", b"no dump"),
        ("c.json", POD.as_bytes()),
    ];
    assert_eq!(read(&files).unwrap().len(), 3);
}

#[test]
fn what_may_be_configuration_is_kept() {
    let own = r#"{"apiVersion":"kollect.dev/v1alpha1","kind":"KollectTargetList","items":[{"metadata":{"name":"t"}}]}"#;
    let mut dump = read(&[("d.json", own.as_bytes())]).unwrap();
    let own = dump.take_own();
    assert_eq!(own[0].text("/kind"), "KollectTarget");
    assert_eq!(own[0].text("/apiVersion"), "kollect.dev/v1alpha1");
}
