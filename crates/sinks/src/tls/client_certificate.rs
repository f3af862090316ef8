//! The certificate that a sink shows to servers that ask for one.

use std::sync::Arc;

use rustls::{
    ClientConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::error::SinkError;
#[cfg(feature = "postgres")]
use crate::secret::SecretBytes;
#[cfg(any(feature = "kafka", feature = "nats", feature = "postgres"))]
use crate::secret::SecretData;

/// Presents a client's certificate to servers that ask for one. `names` and `place` say where the
/// two PEM texts came from, for people.
pub(crate) fn present(
    config: &mut ClientConfig,
    (certificate, key): (&[u8], &[u8]),
    (certificate_name, key_name): (&str, &str),
    place: &str,
) -> Result<(), SinkError> {
    let broken =
        |name: &str| SinkError::terminal(format!("{name} of {place} is not a readable PEM text"));
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| broken(certificate_name))?;
    if chain.is_empty() {
        return Err(broken(certificate_name));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| broken(key_name))?;
    let certified =
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|_| {
            SinkError::terminal(format!(
                "{key_name} of {place} does not belong to {certificate_name}"
            ))
        })?;
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    Ok(())
}

/// The keys of a Secret that hold a client's certificate and its private key.
#[cfg(any(feature = "kafka", feature = "nats", feature = "postgres"))]
const CERTIFICATE: &str = "tls.crt";
#[cfg(any(feature = "kafka", feature = "nats", feature = "postgres"))]
const PRIVATE_KEY: &str = "tls.key";

/// What [`identify`] depends on, to tell one identity from another.
#[cfg(feature = "postgres")]
pub(crate) fn identity_of(secret: &SecretData) -> [Option<SecretBytes>; 2] {
    [CERTIFICATE, PRIVATE_KEY].map(|key| secret.get(key).cloned())
}

/// Presents the client's certificate of a Secret, if it holds one.
#[cfg(any(feature = "kafka", feature = "nats", feature = "postgres"))]
pub(crate) fn identify(config: &mut ClientConfig, secret: &SecretData) -> Result<(), SinkError> {
    let held = |key: &str| {
        let value = secret.get(key)?.expose();
        (!value.is_empty()).then_some(value)
    };
    match (held(CERTIFICATE), held(PRIVATE_KEY)) {
        (Some(certificate), Some(key)) => present(
            config,
            (certificate, key),
            (CERTIFICATE, PRIVATE_KEY),
            "the Secret",
        ),
        // A certificate alone may be there for somebody else, such as spec.tls.caSecretRef.
        (_, None) => Ok(()),
        (None, Some(_)) => Err(SinkError::terminal(format!(
            "{CERTIFICATE} and {PRIVATE_KEY} of the Secret go together"
        ))),
    }
}
