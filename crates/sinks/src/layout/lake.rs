//! Where the files of an inventory stand in a bucket that query engines read.
//!
//! | Partitioning | Place of a file |
//! | --- | --- |
//! | `current` | `inventory/cluster_name=<c>/inventory=<ns>.<name>/part-0001.parquet` |
//! | `dated` | `inventory/snapshot_date=<day>/cluster_name=<c>/inventory=<ns>.<name>/part-0001.parquet` |
//! | `generation` | `inventory/cluster=<c>/ns=<ns>/name=<name>/generation=<n>.parquet` |
//!
//! Engines read `key=value` directories as columns. In the first two no key is the name of a column
//! inside the files, so nothing hides anything. The third is where earlier programs put files.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use kollect_api::{InventoryId, sink::snapshot::Partitioning};

use super::error::LayoutError;
use super::path::RepoPath;
use super::segment::mark;

/// What lists the files of a set, in the set's own directory.
pub const MANIFEST: &str = "latest.json";

const DATE_KEY: &str = "snapshot_date=";

/// How sets of files are laid out in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lake {
    /// Which sets there are.
    pub partitioning: Partitioning,
    /// How many days a set of a day is kept; for ever if nothing is said.
    pub keep_days: Option<u32>,
    /// What the names of files end in.
    pub extension: String,
}

/// One set of files.
#[derive(Debug, Clone, Copy)]
pub struct SetPlace<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// The inventory.
    pub inventory: &'a InventoryId,
    /// Its generation.
    pub generation: i64,
    /// When the delivery began.
    pub at: Timestamp,
}

impl Lake {
    /// The place of one of `total` files; the first is number 1.
    pub fn part(
        &self,
        place: &SetPlace<'_>,
        number: usize,
        total: usize,
    ) -> Result<RepoPath, LayoutError> {
        let extension = &self.extension;
        let name = match (self.partitioning, total) {
            (Partitioning::Generation, 0 | 1) => {
                format!("generation={}{extension}", place.generation)
            }
            (Partitioning::Generation, _) => format!(
                "generation={}.part-{number:04}-of-{total:04}{extension}",
                place.generation
            ),
            _ => format!("part-{number:04}{extension}"),
        };
        self.file(place, &name)
    }

    /// The place of the manifest.
    pub fn manifest(&self, place: &SetPlace<'_>) -> Result<RepoPath, LayoutError> {
        self.file(place, MANIFEST)
    }

    fn file(&self, place: &SetPlace<'_>, name: &str) -> Result<RepoPath, LayoutError> {
        let path = format!("{}/{name}", self.directory(place));
        RepoPath::expanded(&path).map_err(|fault| LayoutError::Path {
            what: format!("a file of {}", place.inventory),
            fault,
        })
    }

    fn directory(&self, place: &SetPlace<'_>) -> String {
        let (namespace, name) = (place.inventory.namespace(), &place.inventory.name);
        let set = format!(
            "cluster_name={}/inventory={}.{}",
            distinct(place.cluster),
            distinct(namespace),
            distinct(name)
        );
        match self.partitioning {
            Partitioning::Current => format!("inventory/{set}"),
            Partitioning::Dated => format!("inventory/{DATE_KEY}{}/{set}", day(place.at)),
            Partitioning::Generation => format!(
                "inventory/cluster={}/ns={}/name={}",
                plain(place.cluster),
                plain(namespace),
                plain(name)
            ),
        }
    }

    /// Whether a file of an earlier delivery that is not part of this one stays: sets of other days
    /// that are not too old, and of other generations. A history also stays when the partitioning
    /// is another one now.
    pub fn keeps(&self, path: &RepoPath, place: &SetPlace<'_>) -> bool {
        match (self.partitioning, date_of(path)) {
            (Partitioning::Dated, Some(date)) => {
                let today = place.at.to_zoned(TimeZone::UTC).date();
                let oldest = self
                    .keep_days
                    .map(|days| i64::from(days.max(1)) - 1)
                    .and_then(|days| today.checked_sub(jiff::Span::new().days(days)).ok());
                date != today && oldest.is_none_or(|oldest| date >= oldest)
            }
            (Partitioning::Generation, None) => {
                let here = path.parent() == Some(&*self.directory(place));
                let this = place.generation.to_string();
                let generation = generation_of(path);
                generation.is_some_and(|generation| !here || generation != this)
            }
            _ => is_history(path),
        }
    }
}

/// Whether a file is one of a day or of a generation.
pub fn is_history(path: &RepoPath) -> bool {
    date_of(path).is_some() || generation_of(path).is_some()
}

/// The generation of a path, where `generation` puts it.
fn generation_of(path: &RepoPath) -> Option<&str> {
    let file = path.segments().next_back()?;
    file.strip_prefix("generation=")?.split('.').next()
}

fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).date().to_string()
}

/// The day of a path, where `dated` puts it.
fn date_of(path: &RepoPath) -> Option<Date> {
    let segment = path.segments().nth(1)?;
    segment.strip_prefix(DATE_KEY)?.parse().ok()
}

/// A value of a directory: runs of unusual characters become one underscore.
fn plain(value: &str) -> String {
    let mut segment = String::with_capacity(value.len());
    let mut in_run = false;
    for c in value.chars() {
        let usual = c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if usual {
            segment.push(c);
        } else if !in_run {
            segment.push('_');
        }
        in_run = !usual;
    }
    segment
}

/// The same with a mark where anything was changed, so that two values never become one.
fn distinct(value: &str) -> String {
    let plain = plain(value);
    if plain == value {
        plain
    } else {
        format!("{plain}-{}", mark(value.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lake(partitioning: Partitioning, keep_days: Option<u32>) -> Lake {
        Lake {
            partitioning,
            keep_days,
            extension: ".parquet".to_owned(),
        }
    }

    #[test]
    fn l1_l9_l10_places_of_files() {
        let team = InventoryId::namespaced("team-a", "web");
        let odd = InventoryId::namespaced("cluster", "web");
        let fleet = InventoryId::cluster("web");
        for (partitioning, cluster, inventory, total, expected) in [
            (
                Partitioning::Current,
                "prod-west",
                &team,
                1,
                "inventory/cluster_name=prod-west/inventory=team-a.web/part-0001.parquet",
            ),
            (
                Partitioning::Current,
                "a/b c",
                &fleet,
                2,
                "inventory/cluster_name=a_b_c-bfd8dffb/inventory=cluster.web/part-0001.parquet",
            ),
            (
                Partitioning::Dated,
                "prod-west",
                &team,
                1,
                "inventory/snapshot_date=2026-11-16/cluster_name=prod-west/inventory=team-a.web/part-0001.parquet",
            ),
            (
                Partitioning::Generation,
                "a/b c",
                &team,
                1,
                "inventory/cluster=a_b_c/ns=team-a/name=web/generation=9.parquet",
            ),
            (
                Partitioning::Generation,
                "lab",
                &team,
                2,
                "inventory/cluster=lab/ns=team-a/name=web/generation=9.part-0001-of-0002.parquet",
            ),
        ] {
            let place = SetPlace {
                cluster,
                inventory,
                generation: 9,
                at: "2026-11-16T23:59:59Z".parse().unwrap(),
            };
            let path = lake(partitioning, None).part(&place, 1, total).unwrap();
            let (found, expected) = (without_mark(&path), without_mark(expected));
            assert_eq!(found, expected);
        }
        let place = |inventory| SetPlace {
            cluster: "lab",
            inventory,
            generation: 1,
            at: Timestamp::UNIX_EPOCH,
        };
        let lake = lake(Partitioning::Current, None);
        assert_ne!(
            lake.part(&place(&odd), 1, 1).unwrap(),
            lake.part(&place(&fleet), 1, 1).unwrap(),
            "a namespace called cluster has a place of its own"
        );
    }

    /// The digits of a mark are not what is tested here.
    fn without_mark(path: &str) -> String {
        match path.split_once("a_b_c-") {
            Some((before, rest)) => format!("{before}a_b_c{}", &rest[8..]),
            None => path.to_owned(),
        }
    }

    #[test]
    fn what_stays_of_earlier_sets() {
        let inventory = InventoryId::namespaced("team-a", "web");
        let place = SetPlace {
            cluster: "lab",
            inventory: &inventory,
            generation: 9,
            at: "2026-11-16T12:00:00Z".parse().unwrap(),
        };
        let dated = |date: &str| {
            format!(
                "inventory/snapshot_date={date}/cluster_name=lab/inventory=team-a.web/part-0001.parquet"
            )
        };
        let (current, days, all, generation) = (
            lake(Partitioning::Current, None),
            lake(Partitioning::Dated, Some(3)),
            lake(Partitioning::Dated, None),
            lake(Partitioning::Generation, None),
        );
        let named = |name: &str| format!("inventory/cluster=lab/ns=team-a/name=web/{name}");
        for (lake, path, expected) in [
            (&current, dated("2026-11-15"), true),
            (&current, "inventory/team-a/web.json".to_owned(), false),
            (&current, named("generation=8.parquet"), true),
            (&days, named("generation=8.parquet"), true),
            (&days, dated("2026-11-15"), true),
            (&days, dated("2026-11-14"), true),
            (&days, dated("2026-11-13"), false),
            (&days, dated("2026-11-16"), false),
            (&days, dated("2026-11-17"), true),
            (&all, dated("2001-01-01"), true),
            (&all, "inventory/team-a/web.json".to_owned(), false),
            (&generation, named("generation=8.parquet"), true),
            (&generation, named("generation=9.parquet"), false),
            (
                &generation,
                named("generation=9.part-0002-of-0002.parquet"),
                false,
            ),
            (
                &generation,
                "inventory/cluster=old/ns=team-a/name=web/generation=9.parquet".to_owned(),
                true,
            ),
        ] {
            let path = RepoPath::clean(&path).unwrap();
            assert_eq!(lake.keeps(&path, &place), expected, "{path}");
        }
    }
}
