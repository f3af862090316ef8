//! Why rows cannot become files.

use kollect_inventory::split::RowTooLarge;

use super::path::{RepoPath, UnsafePath};
use crate::error::SinkError;

/// Why rows cannot become files. Nothing has been written when this happens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The sink writes rows, not files.
    #[error("only snapshot sinks write files")]
    NotFiles,
    /// A template is not valid.
    #[error("{field} {detail}")]
    Template {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// Two attributes would fill one column.
    #[error(
        "spec.objectStore.hotAttributes: {first:?} and {second:?} both become the column {column}; remove one"
    )]
    Columns {
        /// An attribute.
        first: String,
        /// Another.
        second: String,
        /// The column.
        column: String,
    },
    /// A path is not safe.
    #[error("the path of {what} {fault}; change the path template")]
    Path {
        /// What would stand there.
        what: String,
        /// What is wrong with it.
        fault: UnsafePath,
    },
    /// Two files would have one path.
    #[error(
        "layout collision: {first} and {second} both belong at {path}; \
         put more placeholders into the path template"
    )]
    Collision {
        /// The path.
        path: RepoPath,
        /// What would stand there.
        first: String,
        /// What would stand there, too.
        second: String,
    },
    /// A path would be a file and a directory.
    #[error(
        "layout collision: {path} would be a file and a directory because of {what}; \
         put {{extension}} at the end of the path template"
    )]
    Nested {
        /// The path.
        path: RepoPath,
        /// Which row it was found at.
        what: String,
    },
    /// A file belongs to another inventory.
    #[error(
        "layout collision: {path} belongs to another inventory, sink or cluster, as {record} says; \
         put {{cluster}}, {{namespace}} and {{name}} into the path template, or delete that \
         directory if its inventory is no more"
    )]
    Owned {
        /// The path.
        path: RepoPath,
        /// Where that is written down.
        record: String,
    },
    /// A template leads into the area of another namespace.
    #[error(
        "layout collision: {field} leads to {area}, which belongs to inventories of namespace \
         {namespace}, and this one is in {own}; put {{namespace}} in its place"
    )]
    ForeignArea {
        /// The template.
        field: &'static str,
        /// Where it leads.
        area: String,
        /// Whose place that is.
        namespace: String,
        /// Where the inventory is.
        own: String,
    },
    /// The layout does not make the bytes of this format.
    #[error("parquet is written column by column, not as rows in a file")]
    Columnar,
    /// One row alone is larger than a document may be.
    #[error(transparent)]
    RowTooLarge(#[from] RowTooLarge),
    /// The repository could not be looked at.
    #[error(transparent)]
    Repository(#[from] SinkError),
}

impl From<LayoutError> for SinkError {
    /// A layout that does not work out needs another layout; what a repository answers has a class
    /// of its own.
    fn from(error: LayoutError) -> Self {
        match error {
            LayoutError::Repository(error) => error,
            error => SinkError::terminal(error.to_string()),
        }
    }
}
