//! Where rows go: standard output, a directory, or sinks. Decided before any cluster is asked.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kollect_api::{SinkKey, rules::Object, sink::SinkSpec};
use kollect_sinks::credentials::Materials;

use super::{Options, credentials};
use crate::{configuration::Configuration, render::Format};

/// Where rows go.
#[derive(Debug)]
pub(crate) enum Way {
    /// Standard output.
    Standard(Format),
    /// One file for everything.
    File(PathBuf, Format),
    /// Files below a directory.
    Directory(PathBuf, Format),
    /// The sinks of the manifests.
    Sinks(Vec<Prepared>),
}

/// A sink as it was written.
#[derive(Debug, Clone)]
struct SinkManifest {
    key: SinkKey,
    spec: SinkSpec,
}

/// A sink with everything that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) key: SinkKey,
    pub(crate) spec: SinkSpec,
    pub(crate) materials: Materials,
}

/// Flags that contradict each other.
pub(crate) fn check_flags(output: Option<&Path>, dry_run: bool) -> Result<()> {
    let standard_output = output.is_some_and(|path| path.as_os_str() == "-");
    if standard_output && dry_run {
        bail!("--output - and --dry-run exclude each other: standard output is a preview already");
    }
    if output.is_some_and(|path| path.as_os_str().is_empty()) {
        bail!("--output is empty; give a directory, or - for standard output");
    }
    Ok(())
}

impl Way {
    /// Chooses by the flags and the sinks among the manifests.
    pub(super) fn choose(
        options: &Options,
        configuration: &Configuration,
        contexts: usize,
        terminal: bool,
    ) -> Result<Self> {
        // Tables are for people, lines for whatever is behind a pipe.
        let usual = if terminal || options.kind.is_some() {
            Format::Table
        } else {
            Format::Ndjson
        };
        let sinks: Vec<SinkManifest> = configuration
            .objects
            .iter()
            .filter_map(SinkManifest::of)
            .collect();
        match &options.output {
            Some(_) if !sinks.is_empty() && !options.ignore_sinks => bail!(
                "ambiguous: --output was given, but the manifests have sinks ({}); remove one of both, or add --ignore-sinks",
                named(&sinks)
            ),
            Some(output) if output.as_os_str() == "-" => {
                Ok(Way::Standard(options.format.unwrap_or(usual)))
            }
            Some(output) => Ok(Self::place(output, options.format)),
            // Whoever says how it should look wants to see it.
            None if sinks.is_empty() && (options.format.is_some() || options.kind.is_some()) => {
                Ok(Way::Standard(options.format.unwrap_or(usual)))
            }
            None if options.format.is_some() => bail!(
                "--format needs --output, because the manifests have sinks ({}), which have their format in spec.serialization",
                named(&sinks)
            ),
            None if sinks.is_empty() => bail!(
                "nowhere to write: the manifests have no sink; add one, or give --output DIR or --output -"
            ),
            None => {
                let fixed = sinks.iter().find(|sink| !sink.spec.cluster().is_empty());
                if let (true, Some(sink)) = (contexts > 1, fixed) {
                    bail!(
                        "{} has spec.cluster, but {contexts} contexts are selected and would overwrite each other; leave spec.cluster empty, the name of the context takes its place",
                        sink.key
                    );
                }
                let settings = options.permissions.standard().of_a_person();
                let prepare = |SinkManifest { key, spec }| {
                    let environment = |name: &str| std::env::var(name).ok();
                    let secrets = &configuration.secrets;
                    let found = credentials::materials(
                        &spec,
                        &key.namespace,
                        secrets,
                        &settings,
                        environment,
                    );
                    let materials = found.with_context(|| key.to_string())?;
                    anyhow::Ok(Prepared {
                        key,
                        spec,
                        materials,
                    })
                };
                let sinks: Result<Vec<_>> = sinks.into_iter().map(prepare).collect();
                Ok(Way::Sinks(sinks?))
            }
        }
    }
}

impl Way {
    /// A file, if it is called like one; otherwise a directory.
    fn place(output: &Path, format: Option<Format>) -> Self {
        let text = output.to_string_lossy();
        let extension = output.extension().and_then(|extension| extension.to_str());
        let known = extension.and_then(Format::of_extension);
        let is_directory = text.ends_with('/') || output.is_dir();
        if !is_directory && (known.is_some() || output.is_file()) {
            let format = format.or(known).unwrap_or(Format::Yaml);
            return Way::File(output.to_owned(), format);
        }
        Way::Directory(output.to_owned(), format.unwrap_or(Format::Yaml))
    }
}

impl SinkManifest {
    fn of(object: &Object) -> Option<Self> {
        Some(Self {
            key: SinkKey::of(object)?,
            spec: SinkSpec::of(object)?,
        })
    }
}

fn named(sinks: &[SinkManifest]) -> String {
    let names: Vec<String> = sinks.iter().map(|sink| sink.key.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_contradict_each_other() {
        let (out, dir) = (Some(Path::new("-")), Some(Path::new("out")));
        for (output, dry_run, fine) in [
            (out, false, true),
            (dir, true, true),
            (None, true, true),
            (out, true, false),
            (Some(Path::new("")), false, false),
        ] {
            let checked = check_flags(output, dry_run);
            assert_eq!(checked.is_ok(), fine, "{output:?} {dry_run}");
        }
    }

    #[test]
    fn files_and_directories() {
        let place = tempfile::tempdir().unwrap();
        let there = place.path().join("there.yaml");
        std::fs::create_dir(&there).unwrap();
        let at = |path: &Path, format| match Way::place(path, format) {
            Way::File(_, format) => format!("file {format:?}"),
            Way::Directory(_, format) => format!("directory {format:?}"),
            _ => "elsewhere".to_owned(),
        };
        for (path, format, expected) in [
            ("inventory", None, "directory Yaml"),
            ("inventory", Some(Format::Csv), "directory Csv"),
            ("rows.csv", None, "file Csv"),
            ("rows.md", None, "file Markdown"),
            ("rows.json", Some(Format::Ndjson), "file Ndjson"),
            ("rows.csv/", None, "directory Yaml"),
            ("v1.2", None, "directory Yaml"),
        ] {
            assert_eq!(at(Path::new(path), format), expected, "{path}");
        }
        assert_eq!(at(&there, None), "directory Yaml");
    }
}
