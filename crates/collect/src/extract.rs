//! From an object to the attributes of its row.
//!
//! An [`Extractor`] is compiled once per generation of a profile and then used for every object,
//! from any thread. Attributes are evaluated in the order of the profile, so that always the same
//! one is reported when several fail, over the borrowed object; then they are written in the order
//! of their names, redacted on the way, as canonical JSON straight into a buffer that is used
//! again and again. The object is neither copied nor changed.

mod attribute;
mod error;
pub(crate) mod secret;
mod source;

use kollect_api::profile::ExportMode;
use kollect_api::{KollectProfile, meta};
use kollect_expr::ReadSet;
use kollect_inventory::{Attributes, AttributesBuffer};
use serde_json::Value;

use self::attribute::{Attribute, Values};
use self::source::Source;
use crate::prune::ObjectCopy;
use crate::redact::{Redactor, ScrubKeys};

pub use self::error::{AttributeError, Class, ExtractError, MAX_MESSAGE_BYTES, PruneError};

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
    keys: ScrubKeys,
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
    /// the attribute is optional, just as a path that does not fit an object. Admission refuses
    /// such profiles, but is not always there.
    pub fn new(profile: &KollectProfile, settings: &Settings) -> Self {
        let spec = &profile.spec;
        let permits = |annotation: &str| {
            let annotations = profile.metadata.annotations.as_ref();
            annotations
                .and_then(|all| all.get(annotation))
                .is_some_and(|value| value == "true")
        };
        let export = spec.export.as_ref();
        let prune = export.and_then(|export| export.prune.as_ref());
        let own_keys = prune.into_iter().flat_map(|prune| &prune.scrub_keys);
        let keys = ScrubKeys::new(settings.scrub_keys.iter().chain(own_keys));

        let rules = attribute::Rules {
            keys: &keys,
            is_secret: spec.target_gvk.is_core_secret(),
            secrets_permitted: permits(meta::ALLOW_SECRET_EXTRACTION_ANNOTATION),
        };
        let attributes: Box<[Attribute]> = spec
            .attributes
            .iter()
            .map(|attribute| Attribute::new(attribute, &rules))
            .collect();
        let copy = export
            .filter(|export| export.mode == ExportMode::Resource)
            .map(|export| {
                let permitted = permits(meta::ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION);
                ObjectCopy::new(&spec.target_gvk, export, permitted)
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
        let source = Source::new(object);
        let mut values = Values::new();
        for attribute in &self.attributes {
            attribute.evaluate(&source, &mut values)?;
        }
        let copy = match &self.copy {
            Some(Ok(copy)) => Some((copy, copy.prune(object)?)),
            Some(Err(error)) => return Err(error.clone()),
            None => None,
        };

        let mut redactor = Redactor::new(&self.keys, self.max_row_bytes);
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
    pub fn scrub_keys(&self) -> &ScrubKeys {
        &self.keys
    }
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
