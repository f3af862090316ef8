//! The metrics of a profile, computed from the rows of one target.
//!
//! This is a function of the rows as they are when somebody looks: nothing is kept between two
//! scrapes, so nothing can be out of date, and series of attributes, values and targets that are
//! gone are gone too. Values are found by scanning the rows' text, without decoding it.
//!
//! Every series carries the target it was computed for. Two targets with the same profile, or with
//! profiles of the same name, have series of their own.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use kollect_api::rules::{self, Object, Path};
use kollect_api::visible::visible_within;
use kollect_api::{GroupVersionKind, KollectProfile};
use kollect_inventory::canonical::View;
use kollect_inventory::{Attributes, CanonicalRef};

/// The most combinations of label values of one series.
pub const MAX_COMBINATIONS: usize = 200;

/// The series that counts rows.
const OBJECT_COUNT: &str = "object_count";

/// A metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `kollect_custom_resource_series`, a gauge.
    Plain,
    /// `kollect_custom_resource_labeled_series`, a gauge.
    Labeled,
    /// `kollect_custom_resource_labeled_series_capped_total`, a counter: to be added up.
    Capped,
}

impl Family {
    /// The name that Prometheus sees.
    pub fn name(self) -> &'static str {
        match self {
            Family::Plain => "kollect_custom_resource_series",
            Family::Labeled => "kollect_custom_resource_labeled_series",
            Family::Capped => "kollect_custom_resource_labeled_series_capped_total",
        }
    }
}

/// Whose rows are counted.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'t> {
    /// The name of the profile.
    pub profile: &'t str,
    /// The kind of object the profile reads.
    pub gvk: &'t GroupVersionKind,
    /// The namespace of the target.
    pub target_namespace: &'t str,
    /// The name of the target.
    pub target_name: &'t str,
}

/// One number with its labels, in the order they are shown in.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The family it belongs to.
    pub family: Family,
    /// Names and values of the labels.
    pub labels: Vec<(Cow<'static, str>, String)>,
    /// The number. Of [`Family::Capped`]: how many combinations were left out just now.
    pub value: f64,
}

/// The compiled `spec.metrics` of a profile.
#[derive(Debug)]
pub struct Series {
    sums: Sums,
}

#[derive(Debug)]
enum Sums {
    /// Every attribute that is a number somewhere; names ascend.
    Automatic(Box<[Box<str>]>),
    /// What the profile asks for.
    Chosen(Box<[Metric]>),
}

#[derive(Debug)]
struct Metric {
    name: Box<str>,
    attribute: Box<str>,
    /// The members that lead from there to the number.
    members: Box<[Box<str>]>,
    /// Attributes whose values are labels; names ascend.
    labels: Box<[Box<str>]>,
}

impl Metric {
    /// What the metric sums of a row, if it is there.
    fn value<'r>(&self, row: Attributes<'r>) -> Option<CanonicalRef<'r>> {
        let attribute = row.get(&self.attribute)?;
        let mut members = self.members.iter();
        members.try_fold(attribute, |value, member| value.get(member))
    }
}

impl Series {
    /// Compiles the metrics of a profile. Entries that admission would refuse are left out: a
    /// label that is there twice would make the whole page of metrics unreadable.
    pub fn new(profile: &KollectProfile) -> Self {
        let spec = &profile.spec;
        if spec.metrics.is_empty() {
            let mut names: Vec<Box<str>> = spec
                .attributes
                .iter()
                .map(|attribute| attribute.name.as_str().into())
                .collect();
            names.sort_unstable();
            names.dedup();
            return Series {
                sums: Sums::Automatic(names.into()),
            };
        }
        let object = Object::Profile(profile.clone());
        let findings = rules::check(&object, &rules::Settings::default());
        let refused = |index: usize| {
            let place = Path::spec().field("metrics").index(index).to_string();
            let mut errors = findings.errors.iter();
            errors.any(|finding| finding.path.to_string().starts_with(&place))
        };
        let accepted = spec
            .metrics
            .iter()
            .enumerate()
            .filter(|(index, _)| !refused(*index));
        let metrics = accepted.map(|(_, metric)| {
            let mut labels: Vec<Box<str>> = metric
                .labels
                .iter()
                .map(|label| label.as_str().into())
                .collect();
            labels.sort_unstable();
            labels.dedup();
            let (attribute, members) = spec
                .metric_source(&metric.path)
                .unwrap_or((&metric.path, Vec::new()));
            Metric {
                name: metric.name.as_str().into(),
                attribute: attribute.into(),
                members: members.into_iter().map(Into::into).collect(),
                labels: labels.into(),
            }
        });
        Series {
            sums: Sums::Chosen(metrics.collect()),
        }
    }

    /// The samples for the rows of one target, with at most [`MAX_COMBINATIONS`] per series.
    pub fn samples<'r>(
        &self,
        subject: Subject<'_>,
        rows: impl IntoIterator<Item = Attributes<'r>>,
    ) -> Vec<Sample> {
        self.samples_capped(subject, rows, MAX_COMBINATIONS)
    }

    /// The samples for the rows of one target, with at most `cap` combinations per series. Zero
    /// is no choice and means [`MAX_COMBINATIONS`].
    pub fn samples_capped<'r>(
        &self,
        subject: Subject<'_>,
        rows: impl IntoIterator<Item = Attributes<'r>>,
        cap: usize,
    ) -> Vec<Sample> {
        let mut count = 0_u64;
        let rows = rows.into_iter().inspect(|_| count += 1);
        let mut samples = Samples::new(subject);
        match &self.sums {
            Sums::Automatic(names) => automatic(names, rows, &mut samples),
            Sums::Chosen(metrics) => chosen(metrics, rows, cap, &mut samples),
        }
        #[expect(clippy::cast_precision_loss, reason = "no store holds 2^53 rows")]
        samples.plain(OBJECT_COUNT, count as f64);
        samples.list
    }
}

/// Sums every attribute that is a JSON number in at least one row. Text that looks like a number,
/// such as a version, is left alone here: nobody asked for it to be summed.
fn automatic<'r>(
    names: &[Box<str>],
    rows: impl Iterator<Item = Attributes<'r>>,
    samples: &mut Samples<'_>,
) {
    let mut sums: Vec<Option<f64>> = vec![None; names.len()];
    for row in rows {
        for (name, value) in row.iter() {
            let found = names.binary_search_by(|have| (**have).cmp(&*name));
            if let (Ok(at), Some(number)) = (found, value.as_f64()) {
                *sums[at].get_or_insert_default() += number;
            }
        }
    }
    for (name, sum) in names.iter().zip(sums) {
        if let Some(sum) = sum {
            samples.plain(name, sum);
        }
    }
}

fn chosen<'r>(
    metrics: &[Metric],
    rows: impl Iterator<Item = Attributes<'r>>,
    cap: usize,
    samples: &mut Samples<'_>,
) {
    let mut groups: Vec<Groups> = metrics.iter().map(|_| Groups::new(cap)).collect();
    for row in rows {
        for (metric, groups) in metrics.iter().zip(&mut groups) {
            if let Some(number) = metric.value(row).and_then(number) {
                groups.add(metric, row, number);
            }
        }
    }
    for (metric, groups) in metrics.iter().zip(groups) {
        if metric.labels.is_empty() {
            let sum = groups.kept.into_values().next();
            samples.plain(&metric.name, sum.unwrap_or_default().sum);
            continue;
        }
        let dropped = groups.seen.len() - groups.kept.len();
        for group in groups.kept.into_values() {
            samples.labeled(metric, group);
        }
        #[expect(clippy::cast_precision_loss, reason = "no store holds 2^53 rows")]
        samples.capped(&metric.name, dropped as f64);
    }
}

/// Sums by combination of label values.
struct Groups {
    /// The first combinations in their order. One that is pushed out never comes back, because
    /// there are then as many before it as are kept.
    kept: BTreeMap<String, Group>,
    /// Hashes of all combinations, to count those left out.
    seen: HashSet<u64>,
    hasher: RandomState,
    cap: usize,
}

#[derive(Default)]
struct Group {
    values: Vec<String>,
    sum: f64,
}

impl Groups {
    fn new(cap: usize) -> Self {
        Groups {
            kept: BTreeMap::new(),
            seen: HashSet::new(),
            hasher: RandomState::new(),
            cap: if cap == 0 { MAX_COMBINATIONS } else { cap },
        }
    }

    fn add(&mut self, metric: &Metric, row: Attributes<'_>, number: f64) {
        let values: Vec<String> = metric
            .labels
            .iter()
            .map(|label| row.get(label).map(text).unwrap_or_default())
            .collect();
        let pairs = metric.labels.iter().zip(&values);
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let order = pairs.join("\0");
        self.seen.insert(self.hasher.hash_one(&order));
        let group = self.kept.entry(order).or_default();
        group.values = values;
        group.sum += number;
        if self.kept.len() > self.cap {
            self.kept.pop_last();
        }
    }
}

/// The value of an attribute as a number: a JSON number, or text that is nothing but one.
fn number(value: CanonicalRef<'_>) -> Option<f64> {
    match value.view() {
        View::Number(digits) => digits.parse().ok(),
        View::Text(text) => {
            // Words such as `inf` parse too, but one of them would swallow every other value.
            let is_number = |byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
            let number: f64 = text.bytes().all(is_number).then(|| text.parse().ok())??;
            number.is_finite().then_some(number)
        }
        _ => None,
    }
}

/// The longest value of a label. Longer ones are cut, so that a row cannot make a page of metrics
/// any length.
pub const MAX_LABEL_BYTES: usize = 128;

/// The value of an attribute as the value of a label.
fn text(value: CanonicalRef<'_>) -> String {
    let text = match value.view() {
        View::Null => return String::new(),
        View::Text(text) => text,
        _ => value.as_str().into(),
    };
    visible_within(&text, MAX_LABEL_BYTES).into_owned()
}

/// The samples made so far.
struct Samples<'t> {
    subject: Subject<'t>,
    gvk: String,
    list: Vec<Sample>,
}

impl<'t> Samples<'t> {
    fn new(subject: Subject<'t>) -> Self {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = subject.gvk;
        Samples {
            subject,
            gvk: format!("{group}/{version}/{kind}"),
            list: Vec::new(),
        }
    }

    fn push(
        &mut self,
        family: Family,
        series: &str,
        further: impl Iterator<Item = (Cow<'static, str>, String)>,
        value: f64,
    ) {
        let fixed = [
            ("profile", self.subject.profile),
            ("gvk", &self.gvk),
            ("series", series),
            ("target_namespace", self.subject.target_namespace),
            ("target_name", self.subject.target_name),
        ];
        let fixed = fixed.map(|(name, value)| (Cow::Borrowed(name), value.to_owned()));
        self.list.push(Sample {
            family,
            labels: fixed.into_iter().chain(further).collect(),
            value,
        });
    }

    fn plain(&mut self, series: &str, value: f64) {
        self.push(Family::Plain, series, std::iter::empty(), value);
    }

    fn labeled(&mut self, metric: &Metric, group: Group) {
        let names = metric
            .labels
            .iter()
            .map(|name| Cow::Owned(name.to_string()));
        let further = names.zip(group.values);
        self.push(Family::Labeled, &metric.name, further, group.sum);
    }

    fn capped(&mut self, series: &str, dropped: f64) {
        if dropped > 0.0 {
            self.push(Family::Capped, series, std::iter::empty(), dropped);
        }
    }
}
