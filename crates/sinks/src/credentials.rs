//! Which Secret feeds which backend.
//!
//! [`wanted`] names the Secrets that a sink refers to, [`permitted`] says whether it may use them,
//! and [`materials`] makes of what was read what a backend is built from. Reading is left to whoever
//! has an API server or files at hand; backends never read Secrets.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kollect_api::{
    meta::SYSTEM_NAMESPACE,
    reference::SecretReference,
    rules::{Settings, secret_namespace},
    sink::{Otherwise, SinkSpec},
};

use crate::{
    error::SinkError,
    redact::Redaction,
    secret::{SecretData, SecretText},
    tls,
};

/// The keys under which a Secret may hold the certificates of authorities, best first.
const AUTHORITY_KEYS: [&str; 3] = ["tls.crt", "ca.crt", "ca.pem"];

/// What a Secret is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// `spec.secretRef`, which every sink may have.
    Common,
    /// The reference of the backend's own block, such as `spec.postgres.databaseRef`.
    Backend,
    /// `spec.tls.caSecretRef`.
    Authority,
}

/// A Secret that a sink refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wanted {
    /// What for.
    pub role: Role,
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a backend is built from, besides its specification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Materials {
    /// The Secret that the backend uses; empty means anonymous, or the environment's credentials.
    pub credentials: SecretData,
    /// PEM certificates of the authorities to trust instead of the system's. Known to be readable.
    pub authority: Option<Vec<u8>>,
    /// Removes what the Secrets hold from texts.
    pub redaction: Redaction,
}

/// User, password and token as most servers know them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// Under `username`.
    pub username: Option<SecretText>,
    /// Under `password`.
    pub password: Option<SecretText>,
    /// Under `token`; a Secret without one offers its password.
    pub token: Option<SecretText>,
}

impl From<&SecretData> for Login {
    fn from(data: &SecretData) -> Self {
        let password = data.text("password");
        Self {
            username: data.text("username"),
            token: data.text("token").or_else(|| password.clone()),
            password,
        }
    }
}

/// The Secrets that a sink refers to, in the order in which they are missed.
pub fn wanted(spec: &SinkSpec, sink_namespace: &str) -> Vec<Wanted> {
    let common = spec.common();
    let authority = common.tls.as_ref().and_then(|tls| {
        // An inline bundle wins.
        let inline = tls.ca_bundle.as_ref().is_some_and(|pem| !pem.0.is_empty());
        tls.ca_secret_ref.as_ref().filter(|_| !inline)
    });
    [
        (Role::Common, common.secret_ref.as_ref()),
        (Role::Backend, spec.own_secret().reference),
        (Role::Authority, authority),
    ]
    .into_iter()
    .filter_map(|(role, reference)| {
        let reference = reference?;
        let name = reference.name.trim();
        (!name.is_empty()).then(|| Wanted {
            role,
            namespace: namespace_of(reference, sink_namespace),
            name: name.to_owned(),
        })
    })
    .collect()
}

/// Whether the sink may use the Secret. Secrets of other namespaces need the consent of the
/// operator's administrator.
pub fn permitted(
    wanted: &Wanted,
    sink_namespace: &str,
    settings: &Settings,
) -> Result<(), SinkError> {
    let own = own_namespace(sink_namespace);
    secret_namespace(&wanted.namespace, own, settings)
        .map_err(|error| SinkError::terminal(error.to_string()))
}

/// What a backend is built from. `read` answers for every Secret of [`wanted`]: none means that it
/// does not exist. A Secret that could not be read is a failure of its own and never gets here.
pub fn materials(
    spec: &SinkSpec,
    sink_namespace: &str,
    read: impl Fn(&Wanted) -> Option<SecretData>,
) -> Result<Materials, SinkError> {
    check(spec)?;
    let mut found = BTreeMap::new();
    for wanted in wanted(spec, sink_namespace) {
        let data = read(&wanted).ok_or_else(|| {
            SinkError::terminal(format!(
                "secret {:?} not found in namespace {:?}; create it, or correct {}",
                wanted.name,
                wanted.namespace,
                field(spec, wanted.role)
            ))
        })?;
        found.insert(wanted.role, (wanted, data));
    }
    let authority = authority(spec, found.remove(&Role::Authority))?;
    let redaction = Redaction::of_secrets(found.values().map(|(_, data)| data));
    let own = found.remove(&Role::Backend);
    let common = found
        .remove(&Role::Common)
        .filter(|_| spec.own_secret().otherwise == Otherwise::Common);
    let credentials = own.or(common).map(|(_, data)| data).unwrap_or_default();
    Ok(Materials {
        credentials,
        authority,
        redaction,
    })
}

/// Mistakes that no Secret can mend.
fn check(spec: &SinkSpec) -> Result<(), SinkError> {
    let own = spec.own_secret();
    if own.otherwise == Otherwise::Nothing {
        let block = spec.sink_type();
        match own.reference {
            None => {
                return Err(SinkError::terminal(format!(
                    "{block} sink requires spec.{block}"
                )));
            }
            Some(reference) if reference.name.trim().is_empty() => {
                let field = own.field;
                return Err(SinkError::terminal(format!(
                    "{block} sink requires {field}"
                )));
            }
            Some(_) => {}
        }
    }
    let Some(tls) = &spec.common().tls else {
        return Ok(());
    };
    let Some(reference) = &tls.ca_secret_ref else {
        return Ok(());
    };
    // Trusting the system's authorities is not what somebody meant who began to name others.
    if reference.name.trim().is_empty() {
        return Err(SinkError::terminal(
            "spec.tls.caSecretRef.name is blank; name the Secret, or remove caSecretRef",
        ));
    }
    let inline = tls.ca_bundle.as_ref().is_some_and(|pem| !pem.0.is_empty());
    if inline && spec.sink_type().is_git() {
        return Err(SinkError::terminal(
            "spec.tls.caBundle and spec.tls.caSecretRef are both set; give one of them",
        ));
    }
    Ok(())
}

/// The authorities of `spec.tls`, checked, so that a broken certificate is reported with the field
/// it stands in.
fn authority(
    spec: &SinkSpec,
    secret: Option<(Wanted, SecretData)>,
) -> Result<Option<Vec<u8>>, SinkError> {
    let inline = spec
        .common()
        .tls
        .as_ref()
        .and_then(|tls| tls.ca_bundle.as_ref())
        .filter(|pem| !pem.0.is_empty());
    if let Some(pem) = inline {
        tls::authorities(&pem.0, "spec.tls.caBundle")?;
        return Ok(Some(pem.0.clone()));
    }
    let Some((wanted, data)) = secret else {
        return Ok(None);
    };
    let place = format!(
        "secret {:?} in namespace {:?}",
        wanted.name, wanted.namespace
    );
    let (key, pem) = AUTHORITY_KEYS
        .iter()
        .filter_map(|key| Some((key, data.get(key)?.expose())))
        .find(|(_, pem)| !pem.is_empty())
        .ok_or_else(|| {
            SinkError::terminal(format!(
                "spec.tls.caSecretRef: {place} has none of the keys {}",
                AUTHORITY_KEYS.join(", ")
            ))
        })?;
    tls::authorities(pem, &format!("spec.tls.caSecretRef: key {key} of {place}"))?;
    Ok(Some(pem.to_vec()))
}

fn field(spec: &SinkSpec, role: Role) -> &'static str {
    match role {
        Role::Authority => "spec.tls.caSecretRef",
        Role::Backend => spec.own_secret().field,
        Role::Common => "spec.secretRef",
    }
}

fn own_namespace(sink_namespace: &str) -> &str {
    match sink_namespace.trim() {
        "" => SYSTEM_NAMESPACE,
        namespace => namespace,
    }
}

fn namespace_of(reference: &SecretReference, sink_namespace: &str) -> String {
    match reference.namespace.as_deref().map(str::trim) {
        None | Some("") => own_namespace(sink_namespace).to_owned(),
        Some(namespace) => namespace.to_owned(),
    }
}
