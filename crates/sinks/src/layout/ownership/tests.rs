//! Records of paths.

use proptest::prelude::*;

use super::*;

type Files = BTreeMap<RepoPath, Vec<u8>>;

fn record() -> Record {
    let inventory = InventoryId::namespaced("team-a", "web");
    Record::of(&FileOwner::new("team-a", "repo", "lab", &inventory))
}

fn path(index: u32) -> RepoPath {
    RepoPath::clean(&format!("lab/team-a/pod/web-{index}.yaml")).unwrap()
}

fn apply(files: &mut Files, edit: RecordEdit) {
    for path in edit.removals {
        assert!(files.remove(&path).is_some(), "{path} was not there");
    }
    files.extend(edit.writes);
}

#[test]
fn records_of_different_owners_are_apart() {
    let owner = |sink: &str, inventory| FileOwner {
        sink: sink.to_owned(),
        cluster: "lab".to_owned(),
        inventory,
        living: None,
    };
    let roots = [
        owner("a/b", InventoryId::namespaced("cluster", "web")),
        owner("a/b", InventoryId::cluster("web")),
        owner("a/b", InventoryId::namespaced("n", "web")),
        owner("a-b", InventoryId::namespaced("n", "web")),
    ]
    .map(|owner| Record::of(&owner));
    let mut files = Files::new();
    for record in &roots {
        let edit = record.replace(&files, &[path(1)].into()).unwrap();
        apply(&mut files, edit);
    }
    assert_eq!(files.len(), 4);
    let mut found = Record::all(&files).unwrap();
    found.sort_by(|a, b| a.root.cmp(&b.root));
    let mut expected = roots.to_vec();
    expected.sort_by(|a, b| a.root.cmp(&b.root));
    assert_eq!(found, expected);
}

#[test]
fn one_path_more_rewrites_one_leaf() {
    let paths: BTreeSet<RepoPath> = (0..20_000).map(path).collect();
    let mut files = Files::new();
    let edit = record().replace(&files, &paths).unwrap();
    apply(&mut files, edit);
    assert!(files.len() > 20_000 / CAPACITY);
    let edit = record().edit(&files, &[path(20_000)], &[]).unwrap();
    assert!(edit.writes.len() == 1 && edit.removals.is_empty());
    assert!(edit.writes.values().all(|leaf| leaf.len() < CAPACITY * 40));
    assert!(record().has(&files, &path(7)).unwrap());
    assert!(!record().has(&files, &path(20_000)).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn edits_lead_to_the_record_of_the_new_set(
        first in prop::collection::btree_set(0..2_000_u32, 0..1_200),
        added in prop::collection::btree_set(0..2_000_u32, 0..400),
        removed in prop::collection::btree_set(0..2_000_u32, 0..900),
    ) {
        let paths: BTreeSet<RepoPath> = first.iter().copied().map(path).collect();
        let mut files = Files::new();
        let edit = record().replace(&files, &paths).unwrap();
    apply(&mut files, edit);
        let added: Vec<RepoPath> = added.difference(&first).copied().map(path).collect();
        let removed: Vec<RepoPath> = removed.intersection(&first).copied().map(path).collect();
        let mut next = paths.clone();
        next.retain(|path| !removed.contains(path));
        next.extend(added.iter().cloned());

        let edit = record().edit(&files, &added, &removed).unwrap();
        apply(&mut files, edit);
        let mut expected = Files::new();
        let edit = record().replace(&expected, &next).unwrap();
    apply(&mut expected, edit);
        prop_assert_eq!(&files, &expected);
        prop_assert_eq!(record().load(&files).unwrap().unwrap_or_default(), next);
    }
}
