//! The copy of an object that a row carries in `Resource` mode: chosen parts of it, without what
//! the profile removes.
//!
//! The steps, in this order: keep the parts named by `include`; find what is to go (identity,
//! built-in noise, a preset, pointers, paths, and pointers computed by CEL); remove all of it at
//! once, so that every position in an array means the array as it was; redact while writing.
//! An object from which nothing is removed is written without a copy.

mod presets;

use kollect_api::GroupVersionKind;
use kollect_api::profile::{Export, Include, Prune};
use kollect_expr::cel::Program;
use kollect_expr::jsonpath::Path;
use kollect_expr::pointer::{ParseError, Pointer};
use kollect_expr::{Allowance, CompileBudget, Extent, ReadSet, Removals, Step};
use kollect_inventory::canonical::{ObjectWriter, Slot};
use serde_json::{Map, Value};

use crate::decode::ObjectType;
use crate::extract::source::Source;
use crate::extract::{ExtractError, PruneError};
use crate::guard::{DATA, Guard, HELM_RELEASE, is_applied};
use crate::redact::{Node, Reason, Redactor, RowFull, in_key_order};

pub use presets::{DEFAULTS, IDENTITY, preset};

/// The name of the copy among the attributes unless the profile gives another.
const DEFAULT_NAME: &str = "resource";

/// A compiled `spec.export` in `Resource` mode.
#[derive(Debug)]
pub(crate) struct ObjectCopy {
    name: Box<str>,
    include: Include,
    is_secret: bool,
    /// Kept whatever is included, and known even if an object does not say it.
    object_type: [(&'static str, Value); 2],
    pointers: Box<[Pointer]>,
    paths: Box<[Rule]>,
    /// What is removed is for the profile to say: a rule could find out what it must not see, or
    /// take away the name that tells of the value beside it.
    guarded: bool,
    programs: Box<[(Program, Guard)]>,
}

/// A path of what goes, with its list and its place in it, for messages.
type Rule = (&'static str, usize, Path);

/// What is left of an object.
#[derive(Debug)]
pub(crate) enum Pruned<'o> {
    /// These members as they are, by ascending name.
    Untouched(Vec<(&'o str, &'o Value)>),
    /// Less than that.
    Cut(Map<String, Value>),
}

impl ObjectCopy {
    /// Compiles the export of whole objects. A rule that cannot be compiled is an error: objects
    /// must not be exported with what the profile's author meant to remove.
    pub(crate) fn new(
        gvk: &GroupVersionKind,
        export: &Export,
        permitted: bool,
        hides_data: bool,
        budget: &mut CompileBudget,
    ) -> Result<Self, ExtractError> {
        let is_secret = gvk.is_core_secret();
        if is_secret && !permitted {
            return Err(ExtractError::ExportForbidden);
        }
        let no_rules = Prune::default();
        let prune = export.prune.as_ref().unwrap_or(&no_rules);
        let mut built_in: Vec<&str> = Vec::new();
        if export.dedupe_identity != Some(false) {
            built_in.extend(IDENTITY);
        }
        if prune.defaults != Some(false) {
            built_in.extend(DEFAULTS);
        }
        if let Some(name) = prune.preset {
            built_in.extend(preset(name));
        }
        let built_in = built_in
            .into_iter()
            .filter_map(|text| Pointer::parse(text).ok());
        let own = compile("jsonPointers", &prune.json_pointers, |text| {
            match Pointer::parse(text) {
                // Text that cannot be meant as a pointer has always been passed over.
                Err(ParseError::Blank | ParseError::NoSlash) => Ok(None),
                pointer => Ok(Some(pointer?)),
            }
        })?;
        let paths = compile("jsonPaths", &prune.json_paths, |text| {
            Ok(Some(Path::parse_removal(text)?))
        })?;
        let alike = compile("jqPathExpressions", &prune.jq_path_expressions, |text| {
            Ok(Some(Path::parse_jq(text)?))
        })?;
        let listed = |list: &'static str| move |(at, path)| (list, at, path);
        let paths = paths.into_iter().enumerate().map(listed("jsonPaths"));
        let alike = alike.into_iter().enumerate();
        let paths: Vec<Rule> = paths
            .chain(alike.map(listed("jqPathExpressions")))
            .collect();
        let programs = compile("cel", &prune.cel, |text| {
            let program = Program::compile_within(text, budget)?;
            let guard = Guard::of_program(&program, hides_data);
            Ok(Some((program, guard)))
        })?;
        let ObjectType { api_version, kind } = gvk.into();
        Ok(ObjectCopy {
            name: Self::name(export).into(),
            include: export.include,
            is_secret,
            object_type: [("apiVersion", api_version.into()), ("kind", kind.into())],
            guarded: !own.is_empty() || !paths.is_empty() || !programs.is_empty(),
            pointers: built_in.chain(own).collect(),
            paths: paths.into(),
            programs: programs.into(),
        })
    }

    /// The name of the copy among the attributes.
    pub(crate) fn name(export: &Export) -> &str {
        if export.as_.is_empty() {
            DEFAULT_NAME
        } else {
            &export.as_
        }
    }

    /// The name of this copy among the attributes.
    pub(crate) fn attribute(&self) -> &str {
        &self.name
    }

    pub(crate) fn add_reads(&self, reads: &mut ReadSet) {
        match parts(self.include) {
            Some(parts) => {
                let kept = self.object_type.iter().map(|(name, _)| *name);
                for part in kept.chain(parts.iter().copied()) {
                    reads.insert([Step::Member(part)], Extent::Whole);
                }
            }
            None => reads.insert([], Extent::Whole),
        }
        for (program, guard) in &self.programs {
            guard.add_reads(program.reads(), reads);
        }
    }

    fn includes(&self, member: &str) -> bool {
        match parts(self.include) {
            Some(parts) => {
                parts.contains(&member) || self.object_type.iter().any(|(name, _)| *name == member)
            }
            None => true,
        }
    }

    /// Takes out of `object` what the profile wants to see of it.
    pub(crate) fn prune<'o>(
        &'o self,
        source: &'o Source<'_>,
        allowance: &mut Allowance,
    ) -> Result<Pruned<'o>, ExtractError> {
        let object = if self.guarded {
            source.for_copy()
        } else {
            source.object()
        };
        let mut removals = Removals::new();
        for pointer in &self.pointers {
            self.mark(pointer, object, &mut removals);
        }
        for (index, (program, guard)) in self.programs.iter().enumerate() {
            let seen = if guard.needed {
                source.for_program()
            } else {
                source.object()
            };
            let pointers = computed(program, seen, allowance).map_err(failure("cel", index))?;
            for pointer in &pointers {
                self.mark(pointer, object, &mut removals);
            }
        }
        let members = self.members(object);
        if removals.is_empty() && self.paths.is_empty() {
            return Ok(Pruned::Untouched(members));
        }
        let owned = |(name, value): (&str, &Value)| (name.to_owned(), value.clone());
        let mut copy = Value::Object(members.into_iter().map(owned).collect());
        for (list, index, path) in &self.paths {
            // On the copy, not on the object: what a path finds must not depend on parts that are
            // not included, which a projected object does not have.
            let added = removals.add_path_within(path, &copy, allowance);
            let added = added.map_err(PruneError::from);
            added.map_err(failure(list, *index))?;
        }
        removals.apply(&mut copy);
        match copy {
            Value::Object(members) => Ok(Pruned::Cut(members)),
            // Removals never replace the root.
            _ => Ok(Pruned::Untouched(Vec::new())),
        }
    }

    /// Marks what a pointer addresses, unless the copy does not have it anyway.
    fn mark(&self, pointer: &Pointer, object: &Value, removals: &mut Removals) {
        // Where only some parts are included, none has a name that a pointer would escape.
        let first = pointer.as_str()[1..].split('/').next();
        if first.is_some_and(|member| self.includes(member)) {
            removals.add_pointer(pointer, object);
        }
    }

    /// The included members of the object by ascending name, its type among them.
    fn members<'o>(&'o self, object: &'o Value) -> Vec<(&'o str, &'o Value)> {
        let of_object = object.as_object();
        let mut members: Vec<_> = of_object
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value))
            .filter(|(name, _)| self.includes(name) && !is_applied(name))
            .collect();
        for (name, value) in &self.object_type {
            if of_object.is_none_or(|members| !members.contains_key(*name)) {
                members.push((name, value));
            }
        }
        members.sort_unstable_by_key(|(name, _)| *name);
        members
    }

    /// Writes the copy, redacted.
    pub(crate) fn write(
        &self,
        redactor: &mut Redactor<'_>,
        slot: Slot<'_, String>,
        pruned: &Pruned<'_>,
    ) -> Result<(), RowFull> {
        redactor.count(self.name.len() + 5)?;
        let mut object = slot.object();
        match pruned {
            Pruned::Untouched(members) => members
                .iter()
                .try_for_each(|(name, value)| self.member(redactor, &mut object, name, value)),
            Pruned::Cut(members) => in_key_order(members)
                .try_for_each(|(name, value)| self.member(redactor, &mut object, name, value)),
        }
    }

    fn member<'v>(
        &self,
        redactor: &mut Redactor<'_>,
        object: &mut ObjectWriter<'_, 'v, String>,
        name: &'v str,
        value: &Value,
    ) -> Result<(), RowFull> {
        if self.is_secret && DATA.contains(&name) {
            redactor.count(name.len() + 3)?;
            secret_data(redactor, object.member(name), value)
        } else {
            redactor.member(object, name, Node::Value(value))
        }
    }
}

/// The members of an object that are included, or nothing if all are.
fn parts(include: Include) -> Option<&'static [&'static str]> {
    match include {
        Include::MetadataOnly => Some(&["metadata"]),
        Include::SpecOnly => Some(&["spec"]),
        Include::StatusOnly => Some(&["status"]),
        Include::SpecAndStatus => Some(&["spec", "status"]),
        Include::All => None,
    }
}

/// Writes the keys of what a Secret keeps. A Helm release has no key worth knowing.
fn secret_data(
    redactor: &mut Redactor<'_>,
    slot: Slot<'_, String>,
    data: &Value,
) -> Result<(), RowFull> {
    let Value::Object(members) = data else {
        return redactor.hide(slot, Reason::SecretData);
    };
    redactor.count(2)?;
    let mut object = slot.object();
    for (name, _) in in_key_order(members) {
        if name != HELM_RELEASE {
            redactor.count(name.len() + 3)?;
            redactor.hide(object.member(name), Reason::SecretData)?;
        }
    }
    Ok(())
}

/// Compiles the rules of one list.
fn compile<T>(
    list: &'static str,
    texts: &[String],
    mut parse: impl FnMut(&str) -> Result<Option<T>, PruneError>,
) -> Result<Vec<T>, ExtractError> {
    let mut rules = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        rules.extend(parse(text).map_err(failure(list, index))?);
    }
    Ok(rules)
}

/// The pointers that an expression yields for an object.
fn computed(
    program: &Program,
    object: &Value,
    allowance: &mut Allowance,
) -> Result<Vec<Pointer>, PruneError> {
    let texts = match program.evaluate_within(object, allowance)?.to_value() {
        Value::Null => return Ok(Vec::new()),
        Value::Array(texts) => texts,
        text => vec![text],
    };
    let parse = |text: &Value| {
        let text = text.as_str().ok_or(PruneError::NotPointers)?;
        Pointer::parse(text).map_err(|_| PruneError::NotPointers)
    };
    texts.iter().map(parse).collect()
}

fn failure<E: Into<PruneError>>(list: &'static str, index: usize) -> impl Fn(E) -> ExtractError {
    move |problem| ExtractError::Prune {
        list,
        index,
        problem: problem.into(),
    }
}
