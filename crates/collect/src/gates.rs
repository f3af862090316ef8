//! Which objects a target takes.
//!
//! A [`Selection`] is the compiled form of everything a target says about objects: its rules, or
//! its label selector and names, and its watch mode. It is compiled once when the target changes
//! (see [`plan`](crate::plan)) and asked for every object that a watch delivers:
//!
//! ```text
//!   namespace of the object ──> ResourcePlan::interests ──> one Interest per target that
//!                                                            collects from that namespace
//!   for each: interest.decide(&ObjectView) ─> Verdict
//!        Collect      extract, then Feed::put or Feed::fail
//!        Skip(why)    Feed::skip: a row the object had is removed
//! ```
//!
//! Gates are asked in a fixed order and the first that refuses gives the reason:
//!
//! 1. the namespace: a target is only asked about objects in namespaces it collects from, so this
//!    gate costs nothing per object; [`Skip::Namespace`] exists for callers that explain;
//! 2. the rules, or names and labels;
//! 3. the watch signals: the object's label, then the namespace's label and annotation, then
//!    [`WatchMode`](kollect_api::target::WatchMode).
//!
//! What namespaces contribute (their signal, and which rules their labels admit) is computed once
//! per namespace into a [`NamespaceGate`], not once per object. Two equal gates decide alike, so a
//! namespace whose labels changed in ways that no target looks at costs nothing.
//!
//! A policy that cannot be evaluated means "no match", never an error of the object; the
//! [`Verdict`] counts it, so that it can be shown.

mod decision;
mod object;
mod selection;
mod selector;
mod signal;

pub use decision::{Decision, PolicyFailures, Skip, Verdict};
pub use object::{ObjectView, Version};
pub use selection::{Admitted, NamespaceGate, Selection, SelectionError, SelectionSpec, Sight};
pub use selector::{Labels, Selector, SelectorError};
pub use signal::Signal;
