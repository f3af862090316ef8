//! Where rows go: standard output, a directory, or sinks. Decided before any cluster is asked.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kollect_api::{SinkKey, rules::Object, sink::SinkSpec};
use kollect_sinks::credentials::Materials;

use super::{Options, credentials, records::Format};
use crate::configuration::Configuration;

/// Where rows go.
#[derive(Debug)]
pub(crate) enum Way {
    /// Records on standard output.
    Records(Format),
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
pub(crate) fn check_flags(
    output: Option<&Path>,
    format: Option<Format>,
    dry_run: bool,
) -> Result<()> {
    let standard_output = output.is_some_and(|path| path.as_os_str() == "-");
    if standard_output && dry_run {
        bail!("--output - and --dry-run exclude each other: standard output is a preview already");
    }
    if format.is_some() && output.is_none() {
        bail!("--format needs --output; sinks have their format in spec.serialization");
    }
    if format == Some(Format::Table) && !standard_output {
        bail!("--format table needs --output -");
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
    ) -> Result<Self> {
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
                Ok(Way::Records(options.format.unwrap_or(Format::Ndjson)))
            }
            Some(output) => Ok(Way::Directory(
                output.clone(),
                options.format.unwrap_or(Format::Yaml),
            )),
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
        for (output, format, dry_run, fine) in [
            (out, None, false, true),
            (out, Some(Format::Table), false, true),
            (dir, Some(Format::Json), true, true),
            (None, None, true, true),
            (out, None, true, false),
            (dir, Some(Format::Table), false, false),
            (None, Some(Format::Json), false, false),
            (Some(Path::new("")), None, false, false),
        ] {
            let checked = check_flags(output, format, dry_run);
            assert_eq!(checked.is_ok(), fine, "{output:?} {format:?} {dry_run}");
        }
    }
}
