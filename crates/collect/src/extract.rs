//! From an object to the attributes of its row.
//!
//! An [`Extractor`] is compiled once per generation of a profile and then used for every object,
//! from any thread. Attributes are evaluated in the order of the profile, so that always the same
//! one is reported when several fail, over the borrowed object; then they are written in the order
//! of their names, redacted on the way, as canonical JSON straight into a buffer that is used
//! again and again. The object is neither copied nor changed.

mod attribute;
mod error;
pub(crate) mod source;

use std::sync::Arc;

use kollect_api::profile::ExportMode;
use kollect_api::rules::MAX_EXPRESSIONS;
use kollect_api::{KollectProfile, meta};
use kollect_expr::cel::Limits;
use kollect_expr::{Allowance, CompileBudget, ReadSet};
use kollect_inventory::{Attributes, AttributesBuffer};
use serde_json::Value;

use self::attribute::{Attribute, Values};
use self::source::Source;
use crate::guard::SecretData;
use crate::prune::ObjectCopy;
use crate::redact::{Redactor, ScrubKeys};

pub use self::error::{
    AttributeError, Class, ExtractError, MAX_MESSAGE_BYTES, ProfileError, PruneError,
};

/// What all expressions about one object may cost together, for one target: the policies of its
/// rules and the attributes of its profile. Twice what a single one may take, and as much memory.
pub const OBJECT_LIMITS: Limits = Limits {
    steps: 2_000_000,
    built_bytes: 4 << 20,
};

/// The most bytes of attributes in a row unless the operator says otherwise.
pub const DEFAULT_MAX_ROW_BYTES: usize = 256 << 10;

/// What the operator, not a profile, decides about extraction.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Sensitive keys in addition to the built-in ones.
    pub scrub_keys: Vec<String>,
    /// The most bytes the attributes of a row may have as JSON.
    pub max_row_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            scrub_keys: Vec::new(),
            max_row_bytes: DEFAULT_MAX_ROW_BYTES,
        }
    }
}

/// A compiled profile.
#[derive(Debug)]
pub struct Extractor {
    /// In the order of the profile.
    attributes: Box<[Attribute]>,
    /// In the order of their names.
    columns: Box<[Column]>,
    copy: Option<Result<ObjectCopy, ExtractError>>,
    keys: Arc<ScrubKeys>,
    /// What guarded expressions see of what a Secret keeps.
    data: SecretData,
    /// Text that has the form of a secret is shown.
    shows_secrets: bool,
    max_row_bytes: usize,
    reads: ReadSet,
}

/// What stands under one name in a row.
#[derive(Debug, Clone, Copy)]
enum Column {
    Attribute(usize),
    Copy,
}

impl Extractor {
    /// Compiles a profile.
    ///
    /// This never fails: a path that does not compile fails each object instead, or is left out if
    /// the attribute is optional, just as a path that does not fit an object. A profile that is too
    /// large or too expensive to compile fails every object. Admission refuses such profiles, but
    /// is not always there.
    pub fn new(profile: &KollectProfile, settings: &Settings) -> Self {
        let too_large = oversized(profile).map(ExtractError::Profile);
        if let Some(error) = too_large {
            return Self::refusing(error, settings);
        }
        let mut budget = CompileBudget::new();
        let extractor = Self::compile(profile, settings, &mut budget);
        let attributes = &extractor.attributes;
        if budget.is_exhausted() || attributes.iter().any(Attribute::is_too_expensive) {
            return Self::refusing(ExtractError::Profile(ProfileError::TooExpensive), settings);
        }
        extractor
    }

    /// An extractor that fails every object, and reads nothing of it.
    fn refusing(error: ExtractError, settings: &Settings) -> Self {
        Extractor {
            attributes: Box::default(),
            columns: Box::default(),
            copy: Some(Err(error)),
            keys: Arc::new(ScrubKeys::new(&settings.scrub_keys)),
            data: SecretData::Gone,
            shows_secrets: false,
            max_row_bytes: settings.max_row_bytes,
            reads: ReadSet::nothing(),
        }
    }

    fn compile(profile: &KollectProfile, settings: &Settings, budget: &mut CompileBudget) -> Self {
        let spec = &profile.spec;
        let permits = |annotation: &str| profile.permits(annotation);
        let export = spec.export.as_ref();
        let prune = export.and_then(|export| export.prune.as_ref());
        let own_keys = prune.into_iter().flat_map(|prune| &prune.scrub_keys);
        let keys = Arc::new(ScrubKeys::new(settings.scrub_keys.iter().chain(own_keys)));

        let rules = attribute::Rules {
            keys: &keys,
            is_secret: spec.target_gvk.is_core_secret(),
            secrets_permitted: permits(meta::ALLOW_SECRET_EXTRACTION_ANNOTATION),
        };
        let attributes: Box<[Attribute]> = spec
            .attributes
            .iter()
            .map(|attribute| Attribute::new(attribute, &rules, budget))
            .collect();
        let hides_data = rules.is_secret && !rules.secrets_permitted;
        let shows_secrets = rules.is_secret && rules.secrets_permitted;
        let copy = export
            .filter(|export| export.mode == ExportMode::Resource)
            .map(|export| {
                let permitted = permits(meta::ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION);
                ObjectCopy::new(&spec.target_gvk, export, permitted, hides_data, budget)
            });
        let copy_name = export.map_or("", ObjectCopy::name);

        let mut reads = ReadSet::nothing();
        for attribute in &attributes {
            attribute.add_reads(&mut reads);
        }
        if let Some(Ok(copy)) = &copy {
            copy.add_reads(&mut reads);
        }
        Extractor {
            columns: columns(&attributes, copy.as_ref().map(|_| copy_name)),
            attributes,
            copy,
            keys,
            data: if hides_data {
                SecretData::Gone
            } else {
                SecretData::Shown
            },
            shows_secrets,
            max_row_bytes: settings.max_row_bytes,
            reads,
        }
    }

    /// Extracts the attributes of `object` into `buffer`.
    ///
    /// After an error the buffer holds some JSON that means nothing.
    pub fn extract<'b>(
        &self,
        object: &Value,
        buffer: &'b mut AttributesBuffer,
    ) -> Result<Attributes<'b>, ExtractError> {
        self.extract_within(object, buffer, &mut Allowance::new(OBJECT_LIMITS))
    }

    /// Extracts the attributes of `object` into `buffer`, within what is left of `allowance`.
    pub fn extract_within<'b>(
        &self,
        object: &Value,
        buffer: &'b mut AttributesBuffer,
        allowance: &mut Allowance,
    ) -> Result<Attributes<'b>, ExtractError> {
        let source = Source::new(object, &self.keys, self.data);
        let mut values = Values::new();
        for attribute in &self.attributes {
            attribute.evaluate(&source, allowance, &mut values)?;
        }
        let copy = match &self.copy {
            Some(Ok(copy)) => Some((copy, copy.prune(&source, allowance)?)),
            Some(Err(error)) => return Err(error.clone()),
            None => None,
        };

        let mut redactor = Redactor::new(&self.keys, self.max_row_bytes);
        if self.shows_secrets {
            redactor.show_secret_values();
        }
        let mut writer = buffer.start();
        let mut write = |column: &Column| match *column {
            Column::Attribute(at) => match &values[at] {
                Some(output) => {
                    let attribute = &self.attributes[at];
                    redactor.count(attribute.name().len() + 3)?;
                    attribute.write(&mut redactor, writer.attribute(attribute.name()), output)
                }
                None => Ok(()),
            },
            Column::Copy => match &copy {
                Some((copy, pruned)) => {
                    copy.write(&mut redactor, writer.attribute(copy.attribute()), pruned)
                }
                None => Ok(()),
            },
        };
        let written = self.columns.iter().try_for_each(&mut write);
        let fits = redactor.fits_for_certain();
        let attributes = buffer.view();
        if written.is_err() || (!fits && attributes.json_len() > self.max_row_bytes) {
            return Err(ExtractError::TooLarge {
                limit: self.max_row_bytes,
            });
        }
        Ok(attributes)
    }

    /// The parts of an object that extraction looks at.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// The keys whose values this extractor hides.
    pub fn scrub_keys(&self) -> &Arc<ScrubKeys> {
        &self.keys
    }
}

/// The list of a profile that is longer than admission lets it be.
fn oversized(profile: &KollectProfile) -> Option<ProfileError> {
    let spec = &profile.spec;
    let prune = spec
        .export
        .as_ref()
        .and_then(|export| export.prune.as_ref());
    let of_prune = prune.into_iter().flat_map(|prune| {
        [
            ("spec.export.prune.jsonPointers", prune.json_pointers.len()),
            ("spec.export.prune.jsonPaths", prune.json_paths.len()),
            (
                "spec.export.prune.jqPathExpressions",
                prune.jq_path_expressions.len(),
            ),
            ("spec.export.prune.scrubKeys", prune.scrub_keys.len()),
            ("spec.export.prune.cel", prune.cel.len()),
        ]
    });
    [("spec.attributes", spec.attributes.len())]
        .into_iter()
        .chain(of_prune)
        .find(|(_, count)| *count > MAX_EXPRESSIONS)
        .map(|(list, count)| ProfileError::TooMany {
            list,
            count,
            limit: MAX_EXPRESSIONS,
        })
}

/// The columns of a row by ascending name. Of attributes that share a name, which admission
/// refuses, the last one counts, and the copy of the object comes last of all.
fn columns(attributes: &[Attribute], copy: Option<&str>) -> Box<[Column]> {
    let named = attributes.iter().enumerate();
    let mut columns: Vec<(&str, Column)> = named
        .map(|(at, attribute)| (attribute.name(), Column::Attribute(at)))
        .chain(copy.map(|name| (name, Column::Copy)))
        .collect();
    columns.reverse();
    columns.sort_by_key(|(name, _)| *name);
    columns.dedup_by_key(|(name, _)| *name);
    columns.into_iter().map(|(_, column)| column).collect()
}
