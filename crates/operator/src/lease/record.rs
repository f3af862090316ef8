//! What a Lease says about its holder, and the object around it.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};

/// The fields that an election is about, with the meaning that all Kubernetes components give
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// `holderIdentity`; empty when nobody holds the lease.
    pub(super) holder: String,
    /// `leaseDurationSeconds`: how long others wait after the record last changed.
    pub(super) duration_seconds: i32,
    /// `acquireTime`.
    pub(super) acquired: Option<Timestamp>,
    /// `renewTime`.
    pub(super) renewed: Option<Timestamp>,
    /// `leaseTransitions`: how often the holder changed.
    pub(super) transitions: i32,
}

impl Record {
    /// What an object says.
    pub(super) fn of(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// The object with this record in place of its own; labels and whatever else is there stay,
    /// and so does the version, which makes replacing it conditional.
    pub(super) fn put_into(self, mut lease: Lease) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        *spec = LeaseSpec {
            holder_identity: Some(self.holder),
            lease_duration_seconds: Some(self.duration_seconds),
            acquire_time: self.acquired.map(MicroTime),
            renew_time: self.renewed.map(MicroTime),
            lease_transitions: Some(self.transitions),
            ..spec.clone()
        };
        lease
    }

    /// A new object with this record.
    pub(super) fn into_lease(self, namespace: &str, name: &str) -> Lease {
        self.put_into(Lease {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        })
    }
}
