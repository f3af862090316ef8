//! What a target says about objects, compiled.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kollect_api::GroupVersionKind;
use kollect_api::meta;
use kollect_api::rules::MAX_EXPRESSIONS;
use kollect_api::selector::LabelSelector;
use kollect_api::target::{ResourceRule, WatchMode};
use kollect_expr::cel::{CompileError, EvalError, Program};
use kollect_expr::{Allowance, CompileBudget, Extent, ReadSet, Step};
use serde_json::Value;

use super::decision::{Decision, PolicyFailures, Skip, Verdict};
use super::object::ObjectView;
use super::selector::{Labels, Selector, SelectorError};
use super::signal::Signal;
use crate::extract::OBJECT_LIMITS;
use crate::guard::{Guard, SecretData, StandIn, guarded};
use crate::redact::ScrubKeys;

/// The parts of a target's spec that are about objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SelectionSpec {
    /// `spec.resourceRules`. If there is any, `label_selector` and `names` have no effect.
    pub rules: Vec<ResourceRule>,
    /// `spec.labelSelector`.
    pub label_selector: Option<LabelSelector>,
    /// `spec.names`.
    pub names: Vec<String>,
    /// `spec.watchMode`; cluster targets have none and behave as `All`.
    pub watch_mode: WatchMode,
}

/// Why a selection cannot be compiled. The text names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// `spec.labelSelector` means nothing.
    #[error("spec.labelSelector.{0}")]
    LabelSelector(SelectorError),
    /// A rule does not say which kind it is about.
    #[error("spec.resourceRules[{0}].gvk: version and kind are required")]
    RuleKind(usize),
    /// The namespace selector of a rule means nothing.
    #[error("spec.resourceRules[{0}].namespaceSelector.{1}")]
    RuleNamespaces(usize, SelectorError),
    /// The label conditions of a rule mean nothing.
    #[error("spec.resourceRules[{0}].{1}")]
    RuleLabels(usize, SelectorError),
    /// There are too many rules.
    #[error("spec.resourceRules: {0} rules, at most {MAX_EXPRESSIONS} are allowed")]
    TooManyRules(usize),
    /// The policy of a rule is no CEL expression.
    #[error("spec.resourceRules[{0}].matchPolicy: compile CEL: {1}")]
    RulePolicy(usize, CompileError),
}

/// What a target says about objects, ready to be asked.
///
/// Two selections are equal when they were compiled from the same spec for the same kind.
#[derive(Debug)]
pub struct Selection {
    spec: SelectionSpec,
    gvk: GroupVersionKind,
    sight: Sight,
    objects: Objects,
    reads: ReadSet,
}

/// What policies get to see of objects; without more the least.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// The profile may read what Secrets keep.
    pub secrets_permitted: bool,
    /// Whose values are hidden where an expression could take them away from their names.
    pub keys: Arc<ScrubKeys>,
}

#[derive(Debug)]
enum Objects {
    /// Any of these rules takes the object.
    Rules(Box<[Rule]>),
    /// The object has one of these names (empty: any) and such labels.
    Plain {
        names: Box<[Box<str>]>,
        labels: Selector,
    },
}

#[derive(Debug)]
struct Rule {
    /// Position in `spec.resourceRules`, for messages.
    position: usize,
    namespaces: Selector,
    labels: Selector,
    policy: Option<(Program, Guard)>,
}

/// What the namespace of an object contributes to the decision about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceGate {
    signal: Option<Signal>,
    rules: Admitted,
}

/// The rules whose `namespaceSelector` admits a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// All of them, which also stands for "there are no rules".
    All,
    /// Those at these places among the compiled rules.
    Only(Box<[u32]>),
}

impl NamespaceGate {
    /// The gate of cluster-scoped objects: they belong to no namespace, so no namespace can
    /// refuse them, and none can opt in for them.
    pub const CLUSTER_SCOPED: NamespaceGate = NamespaceGate {
        signal: None,
        rules: Admitted::All,
    };
}

impl PartialEq for Selection {
    fn eq(&self, other: &Self) -> bool {
        self.gvk == other.gvk
            && self.spec == other.spec
            && self.sight.secrets_permitted == other.sight.secrets_permitted
    }
}

impl Selection {
    /// Compiles a selection for objects of the profile's kind.
    ///
    /// Rules for another kind can never take anything, because only the profile's kind is watched.
    /// They are left out; [`Selection::rules`] tells how many are in force.
    pub fn compile(spec: SelectionSpec, gvk: &GroupVersionKind) -> Result<Self, SelectionError> {
        Self::compile_with(spec, gvk, Sight::default())
    }

    /// Compiles a selection whose policies see as much of objects as `sight` says.
    pub fn compile_with(
        spec: SelectionSpec,
        gvk: &GroupVersionKind,
        sight: Sight,
    ) -> Result<Self, SelectionError> {
        let objects = if spec.rules.is_empty() {
            let labels = Selector::compile_optional(spec.label_selector.as_ref())
                .map_err(SelectionError::LabelSelector)?;
            let mut names: Vec<Box<str>> = spec.names.iter().map(|name| (**name).into()).collect();
            names.sort();
            Objects::Plain {
                names: names.into(),
                labels,
            }
        } else {
            if spec.rules.len() > MAX_EXPRESSIONS {
                return Err(SelectionError::TooManyRules(spec.rules.len()));
            }
            let hides_data = gvk.is_core_secret() && !sight.secrets_permitted;
            let mut budget = CompileBudget::new();
            let rules = spec.rules.iter().enumerate();
            let compiled: Result<Vec<_>, _> = rules
                .map(|(position, rule)| Rule::compile(position, rule, hides_data, &mut budget))
                .collect();
            let mut compiled = compiled?;
            compiled.retain(|rule| spec.rules[rule.position].gvk.same_as(gvk));
            Objects::Rules(compiled.into())
        };
        Ok(Selection {
            reads: objects.reads(),
            spec,
            gvk: gvk.clone(),
            sight,
            objects,
        })
    }

    /// Whether compiling this spec for this kind again, with this sight, would give an equal
    /// selection.
    pub fn is_of(&self, spec: &SelectionSpec, gvk: &GroupVersionKind, sight: &Sight) -> bool {
        self.gvk == *gvk
            && self.sight.secrets_permitted == sight.secrets_permitted
            && Arc::ptr_eq(&self.sight.keys, &sight.keys)
            && self.spec == *spec
    }

    /// The number of rules in force; 0 when names and labels select.
    pub fn rules(&self) -> usize {
        match &self.objects {
            Objects::Rules(rules) => rules.len(),
            Objects::Plain { .. } => 0,
        }
    }

    /// Which parts of an object the gates look at, identity included.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// The labels without which no object can be taken, if it can be said as one selector. If all
    /// targets of a resource agree on it, the API server need not send anything else.
    pub fn labels(&self) -> Option<&Selector> {
        let selector = match &self.objects {
            Objects::Plain { labels, .. } => labels,
            Objects::Rules(rules) => {
                let (first, rest) = rules.split_first()?;
                if rest.iter().any(|rule| rule.labels != first.labels) {
                    return None;
                }
                &first.labels
            }
        };
        (!selector.is_empty()).then_some(selector)
    }

    /// What a namespace with these labels and annotations contributes. A namespace of which
    /// nothing is known has neither.
    pub fn namespace_gate(
        &self,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> NamespaceGate {
        NamespaceGate {
            signal: Signal::of_namespace(labels, annotations),
            rules: match &self.objects {
                Objects::Plain { .. } => Admitted::All,
                Objects::Rules(rules) => {
                    let admitted: Vec<u32> = (0..)
                        .zip(rules)
                        .filter(|(_, rule)| rule.namespaces.matches(labels))
                        .map(|(place, _)| place)
                        .collect();
                    if admitted.len() == rules.len() {
                        Admitted::All
                    } else {
                        Admitted::Only(admitted.into())
                    }
                }
            },
        }
    }

    /// Whether the gate of a namespace is the same for all selections of which this is said: only
    /// what the namespace itself signals counts.
    pub fn takes_namespaces_alike(&self) -> bool {
        match &self.objects {
            Objects::Plain { .. } => true,
            Objects::Rules(rules) => rules.iter().all(|rule| rule.namespaces.is_empty()),
        }
    }

    /// Decides about one object of the profile's kind in a namespace the target collects from.
    pub fn decide(&self, gate: &NamespaceGate, object: &ObjectView<'_>) -> Verdict {
        self.decide_within(gate, object, &mut Allowance::new(OBJECT_LIMITS))
    }

    /// Decides about one object within what is left of `allowance`.
    pub fn decide_within(
        &self,
        gate: &NamespaceGate,
        object: &ObjectView<'_>,
        allowance: &mut Allowance,
    ) -> Verdict {
        let mut policy_failures = PolicyFailures::default();
        let decision = match self.refusal(gate, object, allowance, &mut policy_failures) {
            Some(reason) => Decision::Skip(reason),
            None => Decision::Collect,
        };
        Verdict {
            decision,
            policy_failures,
        }
    }

    fn refusal(
        &self,
        gate: &NamespaceGate,
        object: &ObjectView<'_>,
        allowance: &mut Allowance,
        failures: &mut PolicyFailures,
    ) -> Option<Skip> {
        match &self.objects {
            Objects::Plain { names, labels } => {
                let listed =
                    |name: &str| names.binary_search_by(|known| (**known).cmp(name)).is_ok();
                if !names.is_empty() && !listed(object.name()) {
                    return Some(Skip::Name);
                }
                if !labels.matches(object) {
                    return Some(Skip::Labels);
                }
            }
            Objects::Rules(rules) => {
                let mut seen = Seen {
                    object,
                    sight: &self.sight,
                    hides_data: self.gvk.is_core_secret() && !self.sight.secrets_permitted,
                    guarded: OnceCell::new(),
                    allowance,
                    failures,
                };
                let taken = match &gate.rules {
                    Admitted::All => rules.iter().any(|rule| rule.takes(&mut seen)),
                    Admitted::Only(places) => places
                        .iter()
                        .filter_map(|place| rules.get(*place as usize))
                        .any(|rule| rule.takes(&mut seen)),
                };
                if !taken {
                    return Some(Skip::Rules);
                }
            }
        }
        match (Signal::read(object.label(meta::WATCH_LABEL)), gate.signal) {
            (Some(Signal::Disabled), _) => Some(Skip::ObjectOptedOut),
            (None, Some(Signal::Disabled)) => Some(Skip::NamespaceOptedOut),
            (Some(Signal::Enabled), _) | (None, Some(Signal::Enabled)) => None,
            (None, None) => match self.spec.watch_mode {
                WatchMode::All => None,
                WatchMode::OptIn => Some(Skip::NotOptedIn),
            },
        }
    }
}

/// One object as the rules look at it.
struct Seen<'s, 'o> {
    object: &'s ObjectView<'o>,
    sight: &'s Sight,
    hides_data: bool,
    /// The object without what policies must not see, if it holds anything of that.
    guarded: OnceCell<Option<Value>>,
    allowance: &'s mut Allowance,
    failures: &'s mut PolicyFailures,
}

impl Seen<'_, '_> {
    fn test(&mut self, policy: &Program, guard: Guard) -> Result<bool, EvalError> {
        let object = self.object.object();
        let seen = if guard.needed {
            let data = if self.hides_data {
                SecretData::Gone
            } else {
                SecretData::Shown
            };
            let keys = &self.sight.keys;
            let guarded = || guarded(object, keys, data, StandIn::Text);
            self.guarded.get_or_init(guarded).as_ref().unwrap_or(object)
        } else {
            object
        };
        policy.test_within(seen, self.allowance)
    }
}

impl Rule {
    fn compile(
        position: usize,
        rule: &ResourceRule,
        hides_data: bool,
        budget: &mut CompileBudget,
    ) -> Result<Self, SelectionError> {
        if rule.gvk.version.is_empty() || rule.gvk.kind.is_empty() {
            return Err(SelectionError::RuleKind(position));
        }
        let namespaces = Selector::compile_optional(rule.namespace_selector.as_ref())
            .map_err(|error| SelectionError::RuleNamespaces(position, error))?;
        let labels = Selector::compile(&rule.object_selector())
            .map_err(|error| SelectionError::RuleLabels(position, error))?;
        let policy = rule.match_policy.as_deref().map(str::trim);
        let policy = policy
            .filter(|text| !text.is_empty())
            .map(|text| Program::compile_within(text, budget))
            .transpose()
            .map_err(|error| SelectionError::RulePolicy(position, error))?;
        let policy = policy.map(|program| {
            let guard = Guard::of_program(&program, hides_data);
            (program, guard)
        });
        Ok(Rule {
            position,
            namespaces,
            labels,
            policy,
        })
    }

    fn takes(&self, seen: &mut Seen<'_, '_>) -> bool {
        if !self.labels.matches(seen.object) {
            return false;
        }
        let Some((policy, guard)) = &self.policy else {
            return true;
        };
        seen.test(policy, *guard).unwrap_or_else(|error| {
            let failures = &mut *seen.failures;
            failures.count += 1;
            let position = self.position;
            failures.last =
                Some(format!("spec.resourceRules[{position}].matchPolicy: {error}").into());
            false
        })
    }
}

impl Objects {
    fn reads(&self) -> ReadSet {
        let mut reads = ReadSet::nothing();
        let metadata = Step::Member("metadata");
        for field in ["name", "namespace", "uid", "resourceVersion"] {
            reads.insert([metadata, Step::Member(field)], Extent::Whole);
        }
        let mut label = |key: &str| {
            let path = [metadata, Step::Member("labels"), Step::Member(key)];
            reads.insert(path, Extent::Whole);
        };
        label(meta::WATCH_LABEL);
        match self {
            Objects::Plain { labels, .. } => labels.keys().for_each(label),
            Objects::Rules(rules) => {
                rules
                    .iter()
                    .flat_map(|rule| rule.labels.keys())
                    .for_each(label);
                for (policy, guard) in rules.iter().filter_map(|rule| rule.policy.as_ref()) {
                    guard.add_reads(policy.reads(), &mut reads);
                }
            }
        }
        reads
    }
}
