//! The built program between a real kube-apiserver and a real PostgreSQL: what the cluster holds is
//! what the table holds, whatever happens to any of the three.

mod agreement;
mod churn;
mod documents;
mod faults;
mod lake;
mod reads;
mod repositories;
mod restart;
mod rights;
mod scenarios;
mod stage;
mod topics;
