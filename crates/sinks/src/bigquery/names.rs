//! Where rows are: project, dataset, table, and the part of the table that belongs to one inventory.

use kollect_api::sink::{database::Bigquery, spec::SinkSpec};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::SinkError;

/// The longest name of a dataset or table.
const LONGEST: usize = 1024;
/// The longest id of a project, with the domain that old ones have in front.
const LONGEST_PROJECT: usize = 128;
/// What stays as it is in a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':');

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Names {
    pub(super) project: String,
    pub(super) dataset: String,
    pub(super) table: String,
}

/// The rows of one inventory of one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition<'p> {
    pub(super) namespace: &'p str,
    pub(super) name: &'p str,
    pub(super) cluster: &'p str,
}

impl Names {
    /// As the spec says. What could end a name in a statement or a path is refused: a name that is
    /// changed silently is another table.
    pub(super) fn of(bigquery: &Bigquery) -> Result<Self, SinkError> {
        let project = given(&bigquery.project, "project")?;
        let dataset = given(&bigquery.dataset, "dataset")?;
        let table = given(&bigquery.table, "table")?;
        let word = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if !project.chars().all(word) || project.len() > LONGEST_PROJECT {
            return Err(SinkError::terminal(
                "spec.bigquery.project: an id of a project has letters, digits and - . : only",
            ));
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !dataset.chars().all(word) || dataset.len() > LONGEST {
            return Err(SinkError::terminal(
                "spec.bigquery.dataset: a dataset has letters, digits and _ only in its name",
            ));
        }
        let word = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
        if !table.chars().all(word) || table.len() > LONGEST {
            return Err(SinkError::terminal(
                "spec.bigquery.table: a table has letters, digits, - _ and blanks only in its name",
            ));
        }
        Ok(Self {
            project: project.to_owned(),
            dataset: dataset.to_owned(),
            table: table.to_owned(),
        })
    }

    /// `dataset.table`, for people.
    pub(super) fn short(&self) -> String {
        format!("{}.{}", self.dataset, self.table)
    }

    /// The table as a statement names it.
    pub(super) fn quoted(&self) -> String {
        format!("`{}.{}.{}`", self.project, self.dataset, self.table)
    }

    /// The path of the dataset.
    pub(super) fn dataset_path(&self) -> String {
        format!(
            "/projects/{}/datasets/{}",
            segment(&self.project),
            segment(&self.dataset)
        )
    }

    /// The path of the dataset's tables.
    pub(super) fn tables_path(&self) -> String {
        format!("{}/tables", self.dataset_path())
    }

    /// The path of the table.
    pub(super) fn table_path(&self) -> String {
        format!("{}/{}", self.tables_path(), segment(&self.table))
    }

    /// The path of the project's jobs.
    pub(super) fn jobs_path(&self) -> String {
        format!("/projects/{}/jobs", segment(&self.project))
    }

    /// The path of the results of a job.
    pub(super) fn results_path(&self, job: &str) -> String {
        format!(
            "/projects/{}/queries/{}",
            segment(&self.project),
            segment(job)
        )
    }
}

/// One element of a path or value of a query.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

fn given<'v>(value: &'v str, field: &str) -> Result<&'v str, SinkError> {
    let value = value.trim();
    if value.is_empty() {
        return Err(SinkError::terminal(format!(
            "bigquery sink requires spec.bigquery.{field}"
        )));
    }
    Ok(value)
}

/// The block of the spec.
pub(super) fn block(spec: &SinkSpec) -> Result<&Bigquery, SinkError> {
    let block = match spec {
        SinkSpec::Database(database) => database.bigquery.as_ref(),
        SinkSpec::Snapshot(_) | SinkSpec::Event(_) => None,
    };
    block.ok_or_else(|| SinkError::terminal("bigquery sink requires spec.bigquery"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_or_refused() {
        for (project, dataset, table, expected) in [
            (" acme ", " inv ", " items ", Ok("`acme.inv.items`")),
            (
                "example.com:acme",
                "inv",
                "items",
                Ok("`example.com:acme.inv.items`"),
            ),
            (
                "acme",
                "inv",
                "Zeilen für uns",
                Ok("`acme.inv.Zeilen für uns`"),
            ),
            ("", "inv", "items", Err("requires spec.bigquery.project")),
            ("acme", "\t", "items", Err("requires spec.bigquery.dataset")),
            ("acme", "inv", "", Err("requires spec.bigquery.table")),
            ("acme", "inv", "a`; DROP", Err("spec.bigquery.table")),
            ("acme", "inv", "a\\b", Err("spec.bigquery.table")),
            ("acme", "inv", "a.b", Err("spec.bigquery.table")),
            ("acme", "inv", "a/../b", Err("spec.bigquery.table")),
            ("acme", "a-b", "items", Err("spec.bigquery.dataset")),
            ("ac/me", "inv", "items", Err("spec.bigquery.project")),
            ("acme", "inv", &"x".repeat(1025), Err("spec.bigquery.table")),
        ] {
            let names = Names::of(&Bigquery {
                project: project.to_owned(),
                dataset: dataset.to_owned(),
                table: table.to_owned(),
                ..Bigquery::default()
            });
            match (names, expected) {
                (Ok(names), Ok(quoted)) => assert_eq!(names.quoted(), quoted),
                (Err(SinkError::Terminal(text)), Err(part)) => {
                    assert!(text.contains(part), "{text}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn paths_are_escaped() {
        let names = Names {
            project: "example.com:acme".to_owned(),
            dataset: "inv".to_owned(),
            table: "für uns".to_owned(),
        };
        assert_eq!(
            names.table_path(),
            "/projects/example.com:acme/datasets/inv/tables/f%C3%BCr%20uns"
        );
    }
}
