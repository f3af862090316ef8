//! Part numbers: a value of their own, next to the inventory's identity and never inside it.

use std::fmt;

/// One part of a set of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    index: u64,
    total: u64,
}

impl Part {
    /// Part `index` (from 1) of `total`; nothing if there is no such part.
    pub fn new(index: u64, total: u64) -> Option<Self> {
        (1..=total)
            .contains(&index)
            .then_some(Part { index, total })
    }

    /// Where this part stands, from 1.
    pub fn index(self) -> u64 {
        self.index
    }

    /// How many parts the set has.
    pub fn total(self) -> u64 {
        self.total
    }

    /// The path of this part of a file: the part number goes before the last extension of the file
    /// name. A leading dot starts no extension.
    pub fn path(self, path: &str) -> String {
        let name = path.rfind('/').map_or(0, |slash| slash + 1);
        let cut = path[name..]
            .rfind('.')
            .filter(|&dot| dot > 0)
            .map_or(path.len(), |dot| name + dot);
        let (stem, extension) = path.split_at(cut);
        format!("{stem}.{self}{extension}")
    }
}

impl fmt::Display for Part {
    /// The form used in file names; at least four digits, so that parts sort in a listing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part-{:04}-of-{:04}", self.index, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (index, total, path, expected) in [
            (
                2,
                3,
                "inventory/team-a/api.json",
                "inventory/team-a/api.part-0002-of-0003.json",
            ),
            (10, 12345, "a.json", "a.part-0010-of-12345.json"),
            (
                1,
                2,
                "inventory/a.b.json",
                "inventory/a.b.part-0001-of-0002.json",
            ),
            (
                1,
                2,
                "inventory/v1.2/api",
                "inventory/v1.2/api.part-0001-of-0002",
            ),
            (
                1,
                2,
                "inventory/.hidden",
                "inventory/.hidden.part-0001-of-0002",
            ),
            (1, 2, "", ".part-0001-of-0002"),
        ] {
            let part = Part::new(index, total).expect("a valid part");
            assert_eq!(part.path(path), expected);
        }
    }

    #[test]
    fn part_numbers_start_at_one_and_end_at_the_total() {
        assert!(Part::new(0, 3).is_none());
        assert!(Part::new(4, 3).is_none());
        assert!(Part::new(1, 0).is_none());
        assert!(Part::new(1, 3).is_some());
        assert!(Part::new(3, 3).is_some());
    }
}
