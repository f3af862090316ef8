//! Real servers on loopback, for tests and the demo.
//!
//! A test that talks to the real thing finds what a mock hides, so this crate makes the real
//! thing cheap to have: every server is one type that is obtained, started on free loopback
//! ports, waited for and stopped again by dropping it.
//!
//! | server | type | one per test |
//! | --- | --- | --- |
//! | etcd + kube-apiserver + kube-controller-manager | [`ControlPlane`], used through [`Cluster`] | namespace |
//! | PostgreSQL | [`Postgres`] | [`Database`](postgres::Database) |
//! | PgBouncer in front of it | [`PgBouncer`](pgbouncer::PgBouncer) | itself |
//! | BigQuery (an emulator) | [`Bigquery`] | [`Dataset`](bigquery::Dataset) |
//! | Kafka | [`Kafka`] | topic |
//! | MongoDB, alone or as a replica set | [`Mongo`] | [`MongoUser`](mongo::MongoUser) |
//! | NATS JetStream | [`Nats`] | subject |
//! | S3 (SeaweedFS) | [`S3`] | [`Bucket`](s3::Bucket) |
//! | Prometheus | [`Prometheus`] | server |
//! | Google Cloud Storage (fake-gcs-server) | [`Gcs`] | [`Bucket`](gcs::Bucket) |
//! | Azure Blob Storage (Azurite) | [`Azure`] | [`Container`](azure::Container) |
//! | Git over HTTPS and SSH | [`GitServer`], [`SshServer`](git::SshServer) | [`Repository`](git::Repository) |
//!
//! A [`Proxy`] in front of any of them is a network that fails on demand; a [`Trouble`] in front
//! of the API server refuses, delays, cuts and garbles by verb, resource and namespace. An
//! operator runs as a service account that may do no more than its test needs ([`Cluster::account`]).
//! A [`Hostile`] server is one that means harm. A [`Cloud`] gives tokens to who may have them.
//! Charts are rendered and installed by the real [`Helm`].
//!
//! What a server is made of, in the order a new one needs it:
//!
//! * a program: built from a pinned Go module ([`go`]), taken from a Debian package ([`debian`]),
//!   from jars ([`maven`]), Node packages ([`npm`]) or a Python wheel ([`python`]), and kept in the user's cache ([`cache`]);
//! * a place: a run directory ([`RunDir`]), free ports ([`ports`]) and certificates ([`pki`]);
//! * a life: [`process`] spawns it so that it cannot outlive us, captures its log and waits until
//!   it answers.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let cluster = kollect_testkit::Cluster::shared()?;
//! let namespace = cluster.create_namespace("orders")?;
//! cluster.kubectl(&["create", "configmap", "settings", "--namespace", &namespace])?;
//! # Ok(())
//! # }
//! ```
//!
//! Everything here is synchronous: the servers are processes, and tests of synchronous code use
//! them too.

pub mod account;
pub mod audit;
pub mod azure;
pub mod bigquery;
pub mod cache;
pub mod cloud;
pub mod cluster;
pub mod control_plane;
pub mod debian;
pub mod definitions;
pub mod gcs;
pub mod git;
pub mod go;
pub mod helm;
pub mod hostile;
pub mod http;
pub mod kafka;
pub mod maven;
pub mod mongo;
pub mod names;
pub mod nats;
pub mod npm;
pub mod pgbouncer;
pub mod pki;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod progress;
pub mod prometheus;
pub mod proxy;
pub mod python;
pub mod rbac;
pub mod run_dir;
pub mod s3;
pub mod service;
pub mod small_disk;
pub mod trouble;
pub mod usage;
pub mod wait;

pub use audit::AuditLog;
pub use azure::Azure;
pub use bigquery::Bigquery;
pub use cloud::Cloud;
pub use cluster::Cluster;
pub use control_plane::ControlPlane;
pub use gcs::Gcs;
pub use git::GitServer;
pub use helm::Helm;
pub use hostile::Hostile;
pub use kafka::Kafka;
pub use mongo::Mongo;
pub use nats::Nats;
pub use postgres::Postgres;
pub use prometheus::Prometheus;
pub use proxy::Proxy;
pub use run_dir::RunDir;
pub use s3::S3;
pub use trouble::Trouble;
