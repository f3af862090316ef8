//! The questions, in their order. Beyond names nothing is read of objects without consent.

#[cfg(test)]
mod tests;

use std::{fs, path::Path};

use anyhow::{Result, anyhow, bail};

use super::{
    blueprint::{
        Attribute, Blueprint, File, Filter, Namespaces, check_name, label, labels,
        metadata_attributes,
    },
    cluster::{Cluster, Offered, Place},
    prompts::{Prompts, Stopped},
    suggest::{Suggestion, suggest},
};
use crate::collect::contexts::pattern;

/// How many objects are offered as a sample.
const SAMPLES: u32 = 20;
/// How much of a file is shown before it is overwritten.
const SHOWN: usize = 800;

/// Somebody to ask and something to ask about.
pub(crate) struct Wizard<'w, C, P> {
    pub(crate) cluster: &'w C,
    pub(crate) prompts: &'w P,
}

/// What was learned from a sample.
#[derive(Default)]
struct Sample {
    suggestions: Vec<Suggestion>,
    /// What was looked at.
    title: Option<String>,
    /// Whether a person agreed that values of a sensitive object are read.
    sensitive: bool,
}

fn canceled<T>(why: &str) -> Result<T, Stopped> {
    Err(Stopped::Canceled(why.to_owned()))
}

fn anything(text: &str) -> Result<()> {
    if text.is_empty() {
        bail!("write something");
    }
    Ok(())
}

fn label_text(text: &str) -> Result<()> {
    labels(text).map(drop)
}

impl<C: Cluster, P: Prompts> Wizard<'_, C, P> {
    /// Asks everything and returns what is to be written into `directory`.
    pub(crate) fn run(&self, directory: &Path) -> Result<Vec<File>, Stopped> {
        self.context()?;
        let kind = self.kind()?;
        let (namespaces, warning) = if kind.namespaced {
            self.namespaces()?
        } else {
            (Namespaces::All, None)
        };
        let filter = self.filter()?;
        let sample = self.sample(&kind, &namespaces)?;
        let attributes = self.attributes(&sample)?;
        let default = kind.kind.kind.to_lowercase();
        let name = self
            .prompts
            .text("Name of the profile and the target", &default, check_name)?;
        let blueprint = Blueprint {
            name,
            kind: kind.kind,
            namespaces,
            filter,
            attributes,
            reads_secrets: sample.sensitive,
            sampled: sample.title,
            warning,
        };
        let files = blueprint.files()?;
        self.prompts.say(&blueprint.review());
        if !self.prompts.confirm("Write these files?", true)? {
            return canceled("you declined to write");
        }
        self.overwrite(directory, &files)?;
        Ok(files.into())
    }

    fn context(&self) -> Result<(), Stopped> {
        let (context, server) = self.cluster.place();
        let server = if server.is_empty() {
            "(unknown server)"
        } else {
            server
        };
        let question = format!("Use context {context} at {server}?");
        if self.prompts.confirm(&question, true)? {
            Ok(())
        } else {
            canceled("you declined the context; choose another with --context")
        }
    }

    fn kind(&self) -> Result<Offered, Stopped> {
        let mut kinds = self.cluster.kinds()?;
        if kinds.is_empty() {
            return Err(
                anyhow!("no listable resources were found; check the RBAC of your user").into(),
            );
        }
        kinds.sort_by_key(|kind| label(&kind.kind));
        let options = kinds.iter().map(|kind| label(&kind.kind)).collect();
        let index = self.prompts.select("What should be collected?", options)?;
        Ok(kinds.swap_remove(index))
    }

    fn namespaces(&self) -> Result<(Namespaces, Option<String>), Stopped> {
        let options = [
            "All accessible namespaces",
            "Explicit namespace list",
            "Label namespaceSelector",
            "Discovery-time name pattern (snapshot)",
        ];
        let options = options.map(str::to_owned).to_vec();
        Ok(
            match self.prompts.select("From which namespaces?", options)? {
                0 => (Namespaces::All, None),
                1 => {
                    let names = self.known_namespaces()?;
                    let question = "Which namespaces?";
                    let chosen = self.prompts.multi_select(question, names.clone(), &[])?;
                    if chosen.is_empty() {
                        return Err(anyhow!(
                            "no namespaces were chosen, which would mean all of them"
                        )
                        .into());
                    }
                    let names = chosen.into_iter().map(|index| names[index].clone());
                    (Namespaces::Named(names.collect()), None)
                }
                2 => (self.labelled()?, None),
                _ => self.pattern()?,
            },
        )
    }

    fn known_namespaces(&self) -> Result<Vec<String>, Stopped> {
        let mut names = self.cluster.namespaces()?;
        names.sort();
        Ok(names)
    }

    fn labelled(&self) -> Result<Namespaces, Stopped> {
        let question = "Labels of the namespaces, as key=value[,key=value]";
        let text = self.prompts.text(question, "", label_text)?;
        Ok(Namespaces::Labelled(labels(&text)?))
    }

    fn pattern(&self) -> Result<(Namespaces, Option<String>), Stopped> {
        let wish = self
            .prompts
            .text("Pattern of names, such as team-*", "", anything)?;
        let matcher =
            pattern(&wish).map_err(|problem| anyhow!("{wish:?} is no pattern: {problem}"))?;
        let mut names = self.known_namespaces()?;
        names.retain(|name| matcher.is_match(name));
        if names.is_empty() {
            return Err(anyhow!("no namespace matches {wish:?}").into());
        }
        self.prompts.say(&format!(
            "matches now: {}\nThis is a snapshot: namespaces that come later are not included. A label selector is durable.",
            names.join(", ")
        ));
        if self
            .prompts
            .confirm("Use a label selector instead?", false)?
        {
            return Ok((self.labelled()?, None));
        }
        let warning = "the namespaces are a snapshot of a pattern; later ones are not included";
        Ok((Namespaces::Named(names), Some(warning.to_owned())))
    }

    fn filter(&self) -> Result<Filter, Stopped> {
        let options = [
            "No resource filter",
            "Label selector",
            "Explicit resource name list",
        ];
        let options = options.map(str::to_owned).to_vec();
        Ok(match self.prompts.select("Which objects?", options)? {
            0 => Filter::Nothing,
            1 => {
                let question = "Labels of the objects, as key=value[,key=value]";
                let text = self.prompts.text(question, "", label_text)?;
                Filter::Labels(labels(&text)?)
            }
            _ => {
                let question = "Names of the objects, separated by commas";
                let text = self.prompts.text(question, "", anything)?;
                let names = text.split(',').map(str::trim);
                let names = names.filter(|name| !name.is_empty());
                Filter::Names(names.map(str::to_owned).collect())
            }
        })
    }

    fn sample(&self, kind: &Offered, namespaces: &Namespaces) -> Result<Sample, Stopped> {
        let question = "Look at one object to suggest attributes?";
        if !self.prompts.confirm(question, true)? {
            return Ok(Sample::default());
        }
        let sensitive = kind.kind.is_core_secret();
        if sensitive {
            self.prompts.say(
                "Secrets hold secret values. Paths into their data need an opt-in, which the profile will carry as an annotation; redaction by key names is no classification; whatever you collect may be captured where it is written.",
            );
            if !self.prompts.confirm("Read a Secret all the same?", false)? {
                return Ok(Sample::default());
            }
        }
        let places = self.cluster.names(kind, namespaces, SAMPLES)?;
        if places.is_empty() {
            self.prompts.say("there is no object to look at");
            return Ok(Sample::default());
        }
        let options = places.iter().map(named).collect();
        let index = self.prompts.select("Which one?", options)?;
        let place = &places[index];
        let title = title(kind, place);
        self.prompts.say(&title);
        let object = self.cluster.get(kind, place)?;
        Ok(Sample {
            suggestions: suggest(&object, sensitive),
            title: Some(title),
            sensitive,
        })
    }

    fn attributes(&self, sample: &Sample) -> Result<Vec<Attribute>, Stopped> {
        let mut attributes = metadata_attributes();
        let defaults: Vec<usize> = (0..attributes.len()).collect();
        let mut options: Vec<String> = attributes
            .iter()
            .map(|attribute| format!("{} ({})", attribute.name, attribute.path))
            .collect();
        for Suggestion { attribute, preview } in &sample.suggestions {
            if attributes.iter().all(|known| known.name != attribute.name) {
                let Attribute { name, path, .. } = attribute;
                options.push(format!("{name} ({path}) e.g. {preview}"));
                attributes.push(attribute.clone());
            }
        }
        let question = "Which attributes?";
        let mut chosen = self.prompts.multi_select(question, options, &defaults)?;
        if chosen.is_empty() {
            chosen.push(0);
        }
        let mut all: Vec<Option<Attribute>> = attributes.into_iter().map(Some).collect();
        Ok(chosen
            .into_iter()
            .filter_map(|index| all.get_mut(index)?.take())
            .collect())
    }

    fn overwrite(&self, directory: &Path, files: &[File]) -> Result<(), Stopped> {
        for File { name, content } in files {
            let path = directory.join(name);
            let Ok(old) = fs::read(&path) else {
                continue;
            };
            let old_text = String::from_utf8_lossy(&old);
            self.prompts.say(&format!(
                "{} exists ({} bytes):\n{}\nnew ({} bytes):\n{}",
                path.display(),
                old.len(),
                beginning(&old_text),
                content.len(),
                beginning(content),
            ));
            if !self.prompts.confirm("Overwrite it?", false)? {
                return canceled("you declined to overwrite");
            }
        }
        Ok(())
    }
}

fn named((namespace, name): &Place) -> String {
    if namespace.is_empty() {
        name.clone()
    } else {
        format!("{namespace}/{name}")
    }
}

fn title(kind: &Offered, (namespace, name): &Place) -> String {
    if namespace.is_empty() {
        format!("{} name={name}", label(&kind.kind))
    } else {
        format!("{} namespace={namespace} name={name}", label(&kind.kind))
    }
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN.min(text.len()))]
}
