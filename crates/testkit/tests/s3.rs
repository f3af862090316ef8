//! S3: buckets, and what they hold as seen past the protocol.

use anyhow::Result;
use kollect_testkit::S3;
use serde_json::json;

#[test]
fn buckets_are_made_listed_and_cleared() -> Result<()> {
    let s3 = S3::shared()?;
    let (one, two) = (s3.create_bucket("one")?, s3.create_bucket("two")?);
    one.write("a/b=1/c d.json", &json!({"x": 1}))?;
    one.write("e", &json!("y"))?;
    let objects = one.objects()?;
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["a/b=1/c d.json", "e"]);
    assert_eq!(objects["e"].size, 3);
    assert_eq!(
        one.read("a/b=1/c d.json")?.as_deref(),
        Some(&b"{\"x\":1}"[..])
    );
    assert_eq!(one.read("missing")?, None);
    assert!(two.objects()?.is_empty());
    one.write("e", &json!("y"))?;
    assert_ne!(one.objects()?["e"].mark, objects["e"].mark);
    one.clear()?;
    assert!(one.objects()?.is_empty() && one.uploads()?.is_empty());
    Ok(())
}
