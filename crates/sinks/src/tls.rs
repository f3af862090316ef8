//! Trust in certificates.
//!
//! One policy for every backend: the authorities of `spec.tls` if there are any, and then only
//! these; otherwise the ones of the system. `insecureSkipVerify` accepts any certificate, and says
//! so on the sink.

#[cfg(any(
    feature = "kafka",
    feature = "mongodb",
    feature = "nats",
    feature = "postgres"
))]
pub(crate) mod client_certificate;
#[cfg(test)]
pub(crate) mod tests;
mod verifier;

use std::{
    io,
    sync::{Arc, LazyLock},
    time::Duration,
};

use kollect_api::{address, sink::SinkSpec};
#[cfg(feature = "postgres")]
use rustls::client::{WebPkiServerVerifier, danger::ServerCertVerifier};
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use self::verifier::{AcceptAny, Listed};
use crate::{credentials::Materials, error::SinkError};

/// How long a server may take to agree on a session.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Whom a sink believes to be its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM certificates of the authorities to trust instead of the system's.
    pub authority: Option<Vec<u8>>,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
}

impl Trust {
    /// As a sink says it, with the authority that was read for it.
    pub fn of(spec: &SinkSpec, materials: &Materials) -> Self {
        let tls = spec.common().tls.as_ref();
        Self {
            authority: materials.authority.clone(),
            insecure_skip_verify: tls.is_some_and(|tls| tls.insecure_skip_verify),
        }
    }

    /// The configuration of a TLS client. The crypto library is named, so that nothing depends on
    /// which one the process installed.
    pub fn client_config(&self) -> Result<ClientConfig, SinkError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| SinkError::terminal(format!("cannot set up TLS: {error}")))?;
        // Read even if nothing is verified: a broken bundle is a mistake either way.
        let authorities = self
            .authority
            .as_deref()
            .map(|pem| authorities(pem, "spec.tls"))
            .transpose()?;
        let config = if self.insecure_skip_verify {
            let verifier = Arc::new(AcceptAny::new(&provider));
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        } else if let Some(authorities) = authorities {
            let verifier = Arc::new(Listed::new(authorities, provider)?);
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        } else {
            builder.with_root_certificates(Arc::clone(&SYSTEM_ROOTS))
        };
        Ok(config.with_no_client_auth())
    }

    /// What judges a server's certificate, for backends that relax one of its rules. Does not look
    /// at `insecure_skip_verify`.
    #[cfg(feature = "postgres")]
    pub(crate) fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, SinkError> {
        let provider = Arc::new(ring::default_provider());
        if let Some(pem) = &self.authority {
            let authorities = authorities(pem, "spec.tls")?;
            return Ok(Arc::new(Listed::new(authorities, provider)?));
        }
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&SYSTEM_ROOTS), provider)
            .build()
            .map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
            .map_err(|_| {
                SinkError::terminal(
                    "the system has no certificate authorities; give one in spec.tls.caBundle or spec.tls.caSecretRef",
                )
            })
    }
}

/// The certificates of a PEM text; `field` says where it came from.
pub(crate) fn authorities(
    pem: &[u8],
    field: &str,
) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| SinkError::terminal(format!("{field}: the PEM text is broken")))?;
    if certificates.is_empty() {
        return Err(SinkError::terminal(format!(
            "{field}: holds no PEM certificate (-----BEGIN CERTIFICATE-----)"
        )));
    }
    let mut store = RootCertStore::empty();
    for (index, certificate) in certificates.iter().enumerate() {
        store.add(certificate.clone()).map_err(|_| {
            SinkError::terminal(format!("{field}: certificate {} is broken", index + 1))
        })?;
    }
    Ok(certificates)
}

/// The authorities that the system trusts, read once: they are a hundred and more, and every sink
/// would keep them. None is no error yet: a sink may not need any, and one that does gets told what
/// to do when its server's certificate is refused.
static SYSTEM_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        tracing::warn!(
            "the system has no certificate authorities; TLS works only with spec.tls.caBundle or caSecretRef"
        );
    }
    Arc::new(store)
});

/// Starts TLS on a connection. `host` is the name that the certificate has to show.
pub async fn handshake<S>(
    config: Arc<ClientConfig>,
    host: &str,
    stream: S,
) -> Result<TlsStream<S>, SinkError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let host = address::normalize(host);
    let name = ServerName::try_from(host.clone()).map_err(|_| {
        SinkError::terminal(format!("{host:?} is neither a host name nor an IP address"))
    })?;
    let attempt = TlsConnector::from(config).connect(name, stream);
    match timeout(HANDSHAKE, attempt).await {
        Ok(result) => result.map_err(|error| refusal(&host, &error)),
        Err(_) => Err(SinkError::transient(format!(
            "TLS handshake with {host:?}: no answer within {} s",
            HANDSHAKE.as_secs()
        ))),
    }
}

/// A failed handshake in words, with the class that fits: who has to act decides it.
fn refusal(host: &str, error: &io::Error) -> SinkError {
    let cause = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(problem)) = cause else {
        return SinkError::transient(format!("TLS handshake with {host:?}: {error}"));
    };
    match problem {
        // The server's people renew it, and nothing changes here when they do.
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => SinkError::transient(format!(
            "the certificate of {host:?} is not valid now; renew it, or check the clocks"
        )),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            SinkError::terminal(format!(
                "the certificate of the server is not for {host:?}; use a name that it is for"
            ))
        }
        CertificateError::UnknownIssuer => SinkError::terminal(format!(
            "the certificate of {host:?} is not signed by a trusted authority; give the authority in spec.tls.caBundle or spec.tls.caSecretRef"
        )),
        _ => SinkError::terminal(format!("the certificate of {host:?} is refused: {problem}")),
    }
}
