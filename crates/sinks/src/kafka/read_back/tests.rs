use super::*;
use crate::kafka::{
    compression::Codec,
    records::{Batch, Stamp},
};

/// Key, value and headers.
type Given<'a> = (&'a str, Option<&'a str>, &'a [(&'static str, &'a str)]);

/// What the listener of `c/n/i` learns from records of key, value and headers.
fn seen(records: &[Given<'_>]) -> Vec<Seen> {
    let mut batch = Batch::default();
    for (key, value, headers) in records {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        batch.push(key, value.map(str::as_bytes), &headers);
    }
    let bytes = batch.encode(Codec::None, 0, Stamp::NOBODY);
    let by_prefix = HashMap::from([("c/n/i".to_owned(), 0), ("c/n/i-j".to_owned(), 1)]);
    let mut found = Vec::new();
    records::read(&bytes, |record| {
        if let Some((0, seen)) = sight(record, &by_prefix) {
            found.push(seen);
        }
    })
    .unwrap();
    found
}

#[test]
fn records_say_which_row_is_there_and_which_is_gone() {
    let key = "c/n/i/t/x/apps/v1/Deployment/n/a";
    let upsert = ("Kollect-Event", "upsert");
    let hash = ("Kollect-Hash", "00000000000000ff");
    let row = Some(ItemHash(255));
    let odd = Some(UNREADABLE);
    for (value, headers, held) in [
        (Some("{}"), &[upsert, hash][..], row),
        (Some("{}"), &[upsert], odd),
        (Some("{}"), &[upsert, ("Kollect-Hash", "zz")], odd),
        (Some("{}"), &[hash], odd),
        (Some("{}"), &[("Kollect-Event", "delete"), hash], None),
        (None, &[("Kollect-Event", "delete"), hash], None),
        (None, &[], None),
    ] {
        let found = seen(&[(key, value, headers)]);
        let expected = Seen {
            key: key.into(),
            held,
        };
        assert_eq!(found, [expected], "{value:?} {headers:?}");
    }
}

/// C11: whose record it is, whatever begins alike.
#[test]
fn c11_only_records_of_the_inventory_count() {
    let upsert: &[_] = &[("Kollect-Event", "upsert")];
    let keys = [
        "c/n/i-j/t/x/apps/v1/Deployment/n/a",
        "c/n/ii/t/x/apps/v1/Deployment/n/a",
        "c/n/i",
        "c/n",
        "",
        "d/c/n/i/t/x",
        "c/%cluster/i/t/x/apps/v1/Deployment/n/a",
    ];
    let records = keys.map(|key| (key, Some("{}"), upsert));
    assert_eq!(seen(&records), []);
}
