//! Edits of trees.

use proptest::prelude::*;

use super::*;

struct Stage {
    directory: tempfile::TempDir,
    repository: Repository,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(directory.path()).unwrap();
        Self {
            directory,
            repository,
        }
    }

    fn blob(&self, content: &str) -> Oid {
        self.repository.blob(content.as_bytes()).unwrap()
    }

    /// Edits a tree; returns the new one and the number of objects it took.
    fn edit(
        &self,
        tree: Option<Oid>,
        edit: impl FnOnce(&mut Files<'_>) -> Result<(), GitError>,
    ) -> Result<(Oid, u32), GitError> {
        let mut files = Files::open(&self.repository, tree)?;
        edit(&mut files)?;
        let mut pack = PackWriter::create(self.directory.path())?;
        let id = files.write(&mut pack)?;
        let pack = pack.finish()?;
        pack.store(&self.repository.odb()?)?;
        Ok((id, pack.objects()))
    }

    /// The paths of a tree, by libgit2's own walk.
    fn paths(&self, tree: Oid) -> Vec<String> {
        let mut paths = Vec::new();
        let tree = self.repository.find_tree(tree).unwrap();
        tree.walk(git2::TreeWalkMode::PreOrder, |above, entry| {
            if entry.kind() == Some(ObjectType::Blob) {
                paths.push(format!("{above}{}", entry.name().unwrap()));
            }
            0
        })
        .unwrap();
        paths.sort();
        paths
    }
}

#[test]
fn one_changed_file_costs_its_directories_only() {
    let stage = Stage::new();
    let (one, two) = (stage.blob("one"), stage.blob("two"));
    let (tree, _) = stage
        .edit(None, |files| {
            for n in 0..50 {
                files.put(&format!("c/ns-{}/kind/{n}.yaml", n % 5), one)?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(stage.paths(tree).len(), 50);
    let (changed, objects) = stage
        .edit(Some(tree), |files| {
            assert!(files.put("c/ns-3/kind/3.yaml", two)?);
            assert!(!files.put("c/ns-4/kind/4.yaml", one)?);
            assert!(!files.remove("c/ns-4/kind/none.yaml")?);
            Ok(())
        })
        .unwrap();
    // kind, ns-3, c and the root.
    assert_eq!(objects, 4);
    assert_eq!(stage.paths(changed).len(), 50);
    let (same, objects) = stage
        .edit(Some(tree), |files| {
            files.put("c/ns-3/kind/3.yaml", one).map(drop)
        })
        .unwrap();
    assert_eq!((same, objects), (tree, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any sequence of edits, written now and then, leads to the tree that libgit2 sees.
    #[test]
    fn edits_lead_to_the_files_of_a_plain_map(
        steps in prop::collection::vec(
            (0_u8..3, 0_u8..3, 0_u8..4, prop::option::of(0_u8..5), prop::bool::weighted(0.2)),
            1..60,
        )
    ) {
        let stage = Stage::new();
        let mut expected = std::collections::BTreeMap::new();
        let mut tree = None;
        for batch in steps.chunk_by(|_, next| !next.4) {
            let edited = stage.edit(tree, |files| {
                for (a, b, c, content, _) in batch {
                    let path = format!("d{a}/e{b}/f{c}.yaml");
                    match content {
                        Some(content) => {
                            let id = stage.blob(&content.to_string());
                            let changed = expected.insert(path.clone(), id) != Some(id);
                            assert_eq!(files.put(&path, id)?, changed);
                        }
                        None => {
                            let there = expected.remove(&path).is_some();
                            assert_eq!(files.remove(&path)?, there);
                        }
                    }
                }
                Ok(())
            });
            tree = Some(edited.unwrap().0);
        }
        let paths: Vec<String> = expected.keys().cloned().collect();
        prop_assert_eq!(stage.paths(tree.unwrap()), paths);
        let mut files = Files::open(&stage.repository, tree).unwrap();
        for (path, id) in expected {
            prop_assert_eq!(files.get(&path).unwrap(), Some(id));
        }
    }
}

#[test]
fn empty_directories_go_and_order_is_gits() {
    let stage = Stage::new();
    let one = stage.blob("one");
    let (tree, _) = stage
        .edit(None, |files| {
            for path in ["a", "a.b/x", "a0", "b/c/d", "b.c", "b0"] {
                files.put(path, one)?;
            }
            files.remove("b/c/d")?;
            files.put("b", one)?;
            files.remove("a")?;
            files.put("a/x", one)?;
            Ok(())
        })
        .unwrap();
    // libgit2 refuses look-ups in trees that are out of order.
    let found = stage.repository.find_tree(tree).unwrap();
    for path in ["a.b/x", "a/x", "a0", "b", "b.c", "b0"] {
        assert!(found.get_path(path.as_ref()).is_ok(), "{path}");
    }
    assert_eq!(stage.paths(tree).len(), 6);
    let (empty, _) = stage
        .edit(Some(tree), |files| {
            for path in ["a.b/x", "a/x", "a0", "b", "b.c", "b0"] {
                assert!(files.remove(path)?);
            }
            Ok(())
        })
        .unwrap();
    assert!(stage.paths(empty).is_empty());
}

/// Thirty directories that each contain the next one thirty times: a few kilobytes, and more
/// files than there are atoms.
#[test]
fn a5_directories_that_contain_each_other_have_an_end() {
    let stage = Stage::new();
    let mut inner = stage.blob("leaf");
    let mut mode = FILE;
    for _ in 0..30 {
        let mut builder = stage.repository.treebuilder(None).unwrap();
        for n in 0..30 {
            builder.insert(format!("d{n}"), inner, mode).unwrap();
        }
        (inner, mode) = (builder.write().unwrap(), DIRECTORY);
    }
    let mut files = Files::open(&stage.repository, Some(inner)).unwrap();
    let error = files.below("").unwrap_err();
    assert!(matches!(error, GitError::Excess { .. }), "{error:?}");
}

#[test]
fn links_are_replaced_but_never_followed() {
    let stage = Stage::new();
    let one = stage.blob("one");
    let link = stage.blob("elsewhere");
    let mut builder = stage.repository.treebuilder(None).unwrap();
    builder.insert("link", link, 0o120_000).unwrap();
    builder.insert("file", one, 0o100_644).unwrap();
    let tree = builder.write().unwrap();
    let (changed, _) = stage
        .edit(Some(tree), |files| {
            assert_eq!(files.get("link")?, None);
            assert!(files.put("link", one)?);
            Ok(())
        })
        .unwrap();
    let entry = stage.repository.find_tree(changed).unwrap();
    assert_eq!(entry.get_name("link").unwrap().filemode(), FILE);
    for path in ["link/x", "file/x"] {
        let error = stage.edit(Some(tree), |files| files.put(path, one).map(drop));
        assert!(matches!(error, Err(GitError::Configuration(_))), "{path}");
    }
    let error = stage.edit(Some(tree), |files| {
        files.put("d/x", one)?;
        files.put("d", one).map(drop)
    });
    assert!(error.is_err());
}

#[test]
fn harmful_paths_are_refused() {
    let stage = Stage::new();
    let one = stage.blob("one");
    for path in [
        "",
        "/a",
        "a//b",
        "../a",
        "a/./b",
        ".git/hooks/x",
        "a/.GIT/x",
        "a\\b",
        "a\nb",
        "a.",
        "a /b",
    ] {
        let error = stage.edit(None, |files| files.put(path, one).map(drop));
        assert!(matches!(error, Err(GitError::Configuration(_))), "{path:?}");
    }
}
