//! Rows as files: formats, paths, indexes.
