//! A cluster as files: what `kubectl get -o json` or `-o yaml` printed, in any number of files.
//!
//! The dump answers what an API server would be asked: which kinds and namespaces there are, and
//! which objects. It answers only for what is in it. A kind that is missing may have had no
//! objects or may not have been dumped, so nothing is known about it.
//!
//! Objects are not kept. The first walk through the files finds out what there is, the second one shows every object to the targets
//! of the plan that was made from it. YAML is slow to parse, so what was read of it is kept as JSON.

mod cut;
mod identity;
mod input;
mod yaml;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use kollect_api::GroupVersionKind;
use kollect_collect::{
    gather::{Failure, Gathered, Gatherer},
    plan::{KindFact, NamespaceFacts, NamespaceListing, Plan, ResourcePlan},
};
use kollect_watch::{
    Resource,
    access::{Permission, Review},
};
use serde_json::Value;

use self::{
    cut::{Cutter, Piece},
    identity::Identity,
    input::File,
};
use super::{report::Report, world::Oracle};
use crate::{
    interrupt,
    manifest::{Document, Places},
};

/// The label every namespace has, with its own name as value.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How many objects messages name.
const NAMED: usize = 3;

/// Group, version and kind of objects in a dump.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gvk {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// What is known of a kind.
#[derive(Debug, Default)]
struct Facts {
    namespaced: bool,
    objects: usize,
}

/// A cluster as files.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    parts: Vec<Part>,
    kinds: BTreeMap<Gvk, Facts>,
    namespaces: BTreeMap<String, NamespaceFacts>,
    /// Namespaces that objects are in, but that are not in the dump themselves.
    implied: BTreeSet<String>,
    /// Objects of our own kinds, and Secrets, if they may be the configuration.
    own: Option<Vec<Document>>,
    /// Objects with a key that is there twice, as messages name them; the first of them.
    ambiguous: Vec<String>,
    ambiguous_count: usize,
}

/// One file.
#[derive(Debug)]
struct Part {
    file: File,
    /// The objects of a YAML file; nothing for JSON, which is read again.
    kept: Option<Vec<Box<[u8]>>>,
    /// Which kinds follow each other, and how many objects of each.
    runs: Vec<(Gvk, usize)>,
}

impl Part {
    fn note(&mut self, kind: &Gvk) {
        match self.runs.last_mut() {
            Some((last, count)) if last == kind => *count += 1,
            _ => self.runs.push((kind.clone(), 1)),
        }
    }
}

/// What the items of a list are, if the list says so.
#[derive(Debug, Clone)]
struct ItemType {
    api_version: String,
    kind: String,
}

impl ItemType {
    /// What a list said before its items, if it said enough.
    fn declared((api_version, kind): (&str, &str)) -> Option<Self> {
        let of = kind.strip_suffix("List").filter(|of| !of.is_empty())?;
        (!api_version.is_empty()).then(|| Self {
            api_version: api_version.to_owned(),
            kind: of.to_owned(),
        })
    }
}

impl Dump {
    /// Looks through all files; directories with everything below them. `own` keeps what may be configuration.
    pub(crate) fn read(paths: &[PathBuf], own: bool, report: &Report) -> Result<Self> {
        let mut dump = Self {
            own: own.then(Vec::new),
            ..Self::default()
        };
        for file in input::files(paths)? {
            let bar = report.reading(&format!("reading {}", file.name), file.size());
            let part = dump.look_through(file, &bar);
            bar.finish_and_clear();
            dump.parts.push(part?);
        }
        dump.imply_namespaces();
        Ok(dump)
    }

    fn look_through(&mut self, file: File, bar: &ProgressBar) -> Result<Part> {
        let name = file.name.clone();
        let mut part = Part {
            kept: None,
            runs: Vec::new(),
            file,
        };
        if part.file.is_json()? {
            let cutter = Cutter::new(part.file.open(bar)?);
            self.walk(cutter, &name, &mut part, bar)?;
            return Ok(part);
        }
        part.kept = Some(Vec::new());
        let text = part.file.text(&ProgressBar::hidden())?;
        bar.set_length(text.len() as u64);
        yaml::each(&name, &text, |json| {
            bar.inc(json.len() as u64);
            let cutter = Cutter::sized(json.as_bytes(), json.len());
            self.walk(cutter, &name, &mut part, bar)
        })?;
        Ok(part)
    }

    /// Goes through the objects of a text.
    fn walk(
        &mut self,
        mut cutter: Cutter<impl std::io::Read>,
        name: &str,
        part: &mut Part,
        bar: &ProgressBar,
    ) -> Result<()> {
        let mut json = Vec::new();
        // Items that do not say what they are, of a list that has not said it yet, and those behind them.
        let mut nameless: Vec<Box<[u8]>> = Vec::new();
        let mut number = 0;
        loop {
            interrupt::check()?;
            let piece = cutter.next(&mut json);
            let Some(piece) = piece.map_err(|error| error.of(name))? else {
                return Ok(());
            };
            if piece == Piece::List {
                let of = list_type(&json, name)?;
                if let Some(of) = &of {
                    self.kinds.entry(Gvk::of(of)).or_default();
                }
                for (index, item) in nameless.drain(..).enumerate() {
                    let place = || format!("{name}: item {} of a list", index + 1);
                    let identity = identify(&item, place)?;
                    self.object(&item, &identity, of.as_ref(), place, part)?;
                }
                number = 0;
                continue;
            }
            number += 1;
            let is_item = piece == Piece::Item;
            let place = || {
                if is_item {
                    format!("{name}: item {number} of the list")
                } else {
                    name.to_owned()
                }
            };
            let identity = identify(&json, place)?;
            let list = if is_item {
                ItemType::declared(cutter.declared())
            } else {
                None
            };
            let unsaid = is_item && identity.kind.is_empty() && list.is_none();
            if unsaid || !nameless.is_empty() {
                nameless.push(json.as_slice().into());
                continue;
            }
            self.object(&json, &identity, list.as_ref(), place, part)?;
            if number % 1024 == 0 {
                bar.set_message(format!("reading {name}, {} objects", self.len()));
            }
        }
    }

    /// Takes note of one object.
    fn object(
        &mut self,
        json: &[u8],
        identity: &Identity<'_>,
        list: Option<&ItemType>,
        place: impl Fn() -> String,
        part: &mut Part,
    ) -> Result<()> {
        let (api_version, kind) = match list {
            // The API server leaves both out of the items of a list.
            Some(of) if identity.kind.is_empty() => (&*of.api_version, &*of.kind),
            _ => (&*identity.api_version, &*identity.kind),
        };
        let (namespace, name) = (&*identity.namespace, &*identity.name);
        let named = || format!("{}: {kind} {namespace}/{name}", place());
        if let Some(field) = identity.odd {
            bail!(
                "{}: {field} is no text, so nobody knows which object this is",
                named()
            );
        }
        if kind.is_empty() || api_version.is_empty() {
            bail!(
                "{}: an object named {name:?} has no kind or no apiVersion; dump with kubectl get -o json or -o yaml",
                place()
            );
        }
        let kind = Gvk::new(api_version, kind);
        if let Some(key) = &identity.twice {
            self.ambiguous_count += 1;
            if self.ambiguous.len() < NAMED {
                self.ambiguous.push(format!("{}: {key:?}", named()));
            }
        }
        if kind.is("", "v1", "Namespace") {
            self.namespaces.insert(name.to_owned(), facts(json));
        }
        if let Some(own) = &mut self.own
            && (kind.group == kollect_api::meta::GROUP || kind.is("", "v1", "Secret"))
            && let Ok(mut value) = serde_json::from_slice::<Value>(json)
        {
            value["apiVersion"] = api_version.into();
            value["kind"] = kind.kind.clone().into();
            own.push(Document {
                file: part.file.name.as_str().into(),
                value,
                places: Places::default(),
            });
        }
        let facts = self.kinds.entry(kind.clone()).or_default();
        facts.objects += 1;
        if !namespace.is_empty() {
            facts.namespaced = true;
            if !self.implied.contains(namespace) {
                self.implied.insert(namespace.to_owned());
            }
        }
        part.note(&kind);
        if let Some(kept) = &mut part.kept {
            kept.push(json.into());
        }
        Ok(())
    }

    fn imply_namespaces(&mut self) {
        self.implied
            .retain(|name| !self.namespaces.contains_key(name));
        for name in &self.implied {
            let facts = NamespaceFacts {
                labels: BTreeMap::from([(NAME_LABEL.to_owned(), name.clone())]),
                annotations: BTreeMap::new(),
            };
            self.namespaces.insert(name.clone(), facts);
        }
    }

    /// Namespaces whose labels are not known, because only their objects were dumped.
    pub(crate) fn implied_namespaces(&self) -> &BTreeSet<String> {
        &self.implied
    }

    /// How many objects have a key that is there twice, and some of them with that key.
    pub(crate) fn ambiguous(&self) -> (usize, &[String]) {
        (self.ambiguous_count, &self.ambiguous)
    }

    /// Takes out what may be configuration.
    pub(crate) fn take_own(&mut self) -> Vec<Document> {
        self.own.take().unwrap_or_default()
    }

    /// The namespaces for the plan.
    pub(crate) fn namespaces(&self) -> NamespaceListing {
        NamespaceListing::Complete(self.namespaces.clone())
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.values().map(|facts| facts.objects).sum()
    }

    /// Whether there are none, and no empty lists of a kind either.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kinds of which something is known, and whether they live in namespaces.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&Gvk, bool)> {
        self.kinds
            .iter()
            .map(|(kind, facts)| (kind, facts.namespaced))
    }

    /// Shows every object to the targets that a plan has for it.
    pub(crate) fn gather(&self, plan: &Plan, report: &Report) -> Result<Gathered> {
        let mut resources: Vec<(&Arc<ResourcePlan>, Gatherer)> = plan
            .resources()
            .map(|resource| (resource, Gatherer::default()))
            .collect();
        let mut json = Vec::new();
        for part in &self.parts {
            let title = format!("collecting from {}", part.file.name);
            let bar = report.reading(&title, part.file.size());
            let mut source = match &part.kept {
                Some(kept) => Objects::Kept(kept.iter()),
                None => Objects::Cut(Cutter::new(part.file.open(&bar)?)),
            };
            for (kind, count) in &part.runs {
                let resource = resource_of(kind, &self.kinds[kind]);
                let mut of_kind: Vec<&mut (&Arc<ResourcePlan>, Gatherer)> = resources
                    .iter_mut()
                    .filter(|(plan, _)| *plan.resource == resource)
                    .collect();
                for _ in 0..*count {
                    interrupt::check()?;
                    let Some(object) = source.next(&mut json, &part.file.name)? else {
                        bail!("{} changed while it was read", part.file.name);
                    };
                    for (plan, gatherer) in &mut of_kind {
                        gather(plan, gatherer, object);
                    }
                }
            }
            bar.finish_and_clear();
        }
        let mut gathered = Gathered::default();
        for (_, gatherer) in resources {
            gathered.add(gatherer.finish());
        }
        Ok(gathered)
    }
}

/// The objects of a file, in their order.
enum Objects<'p> {
    Kept(std::slice::Iter<'p, Box<[u8]>>),
    Cut(Cutter<Box<dyn std::io::Read>>),
}

impl Objects<'_> {
    fn next<'o>(&'o mut self, json: &'o mut Vec<u8>, file: &str) -> Result<Option<&'o [u8]>> {
        match self {
            Objects::Kept(kept) => Ok(kept.next().map(|json| &**json)),
            Objects::Cut(cutter) => loop {
                match cutter.next(json).map_err(|error| error.of(file))? {
                    None => return Ok(None),
                    Some(Piece::List) => {}
                    Some(Piece::Object | Piece::Item) => return Ok(Some(json)),
                }
            },
        }
    }
}

fn gather(plan: &ResourcePlan, gatherer: &mut Gatherer, json: &[u8]) {
    match plan.projection.decode(json) {
        Ok(object) => gatherer.object(plan, &object),
        Err(error) => {
            let identity = Identity::read(json).unwrap_or_default();
            let failure = Failure {
                namespace: identity.namespace.into_owned(),
                name: identity.name.into_owned(),
                uid: String::new(),
                reason: error.to_string(),
            };
            gatherer.unreadable(plan, &failure);
        }
    }
}

/// What a list is a list of; nothing for one of anything.
fn list_type(head: &[u8], file: &str) -> Result<Option<ItemType>> {
    let identity = Identity::read(head)
        .map_err(|_| anyhow!("{file}: this JSON cannot be read, or ends too early"))?;
    let Some(of) = identity.kind.strip_suffix("List") else {
        bail!(
            "{file}: an object that is no list has items at its top; dump with kubectl get -o json"
        );
    };
    Ok((!of.is_empty()).then(|| ItemType {
        api_version: identity.api_version.to_string(),
        kind: of.to_owned(),
    }))
}

fn identify(json: &[u8], place: impl Fn() -> String) -> Result<Identity<'_>> {
    Identity::read(json).map_err(|_| {
        anyhow!(
            "{}: this is no Kubernetes object; dump with kubectl get -o json or -o yaml",
            place()
        )
    })
}

/// Labels and annotations, as far as they are texts.
fn facts(json: &[u8]) -> NamespaceFacts {
    let object: Value = serde_json::from_slice(json).unwrap_or_default();
    let texts = |name: &str| {
        let map = object["metadata"][name].as_object().into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    };
    NamespaceFacts {
        labels: texts("labels"),
        annotations: texts("annotations"),
    }
}

impl Gvk {
    fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    fn of(item: &ItemType) -> Self {
        Self::new(&item.api_version, &item.kind)
    }

    fn is(&self, group: &str, version: &str, kind: &str) -> bool {
        (&*self.group, &*self.version, &*self.kind) == (group, version, kind)
    }
}

/// The resource of a kind. Its plural is not known and not needed: nobody is asked by it.
fn resource_of(kind: &Gvk, facts: &Facts) -> Resource {
    Resource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        plural: kind.kind.to_lowercase(),
        namespaced: facts.namespaced,
    }
}

impl Oracle for &Dump {
    async fn kind(&mut self, gvk: &GroupVersionKind) -> KindFact {
        let group = match gvk.group.as_str() {
            "core" => "",
            group => group,
        };
        let kind = Gvk {
            group: group.to_owned(),
            version: gvk.version.clone(),
            kind: gvk.kind.clone(),
        };
        match self.kinds.get(&kind) {
            Some(facts) => KindFact::Served(Arc::new(resource_of(&kind, facts))),
            None => KindFact::NotInstalled,
        }
    }

    async fn permission(&mut self, _: &Review) -> Permission {
        Permission::Allowed
    }
}

#[cfg(test)]
mod tests;
