//! The exporter of one inventory against a clock that the tests turn: what reaches which sink, and
//! when. No cluster, no server; rows come from a store that is written by hand.

mod edits;
mod fairness;
mod healing;
mod rest;
mod stage;
mod timelines;
mod trouble;
