//! Whether a connection is encrypted, and whom it believes.
//!
//! `sslmode` of the connection string and `spec.tls` of the sink are one decision:
//!
//! | `sslmode` | without an authority | with one (`spec.tls` or `sslrootcert`) |
//! | --- | --- | --- |
//! | absent | as `prefer` | as `verify-full` |
//! | `disable` | never encrypted | never encrypted |
//! | `allow`, `prefer` | encrypted if possible, nobody verified | the same, chain verified if encrypted |
//! | `require` | encrypted, nobody verified | as `verify-ca` |
//! | `verify-ca` | encrypted, chain verified (system's authorities) | with that authority |
//! | `verify-full` | and the host name | and the host name |
//!
//! `spec.tls.insecureSkipVerify` switches verification off in every row. An authority in `spec.tls`
//! wins over `sslrootcert`.

use std::{fs, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dsn::{Ssl, SslMode};
use crate::{error::SinkError, tls::Trust};

/// How one attempt to connect deals with encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Plain,
    IfOffered,
    Encrypted,
}

impl Attempt {
    pub(super) fn ssl_mode(self) -> tokio_postgres::config::SslMode {
        use tokio_postgres::config::SslMode;
        match self {
            Attempt::Plain => SslMode::Disable,
            Attempt::IfOffered => SslMode::Prefer,
            Attempt::Encrypted => SslMode::Require,
        }
    }
}

/// What is verified of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verify {
    Nothing,
    Chain,
    ChainAndName,
}

/// How connections of a sink are encrypted.
#[derive(Clone)]
pub(super) struct Encryption {
    /// In the order in which they are tried.
    pub(super) attempts: &'static [Attempt],
    pub(super) connect: MakeRustlsConnect,
}

impl Encryption {
    /// Reads the files that the connection string names, so a mistake there shows at once.
    pub(super) fn new(ssl: &Ssl, trust: &Trust) -> Result<Self, SinkError> {
        let mut trust = trust.clone();
        let mut system_roots = false;
        if trust.authority.is_none() {
            match ssl.root_certificate.as_deref() {
                None => {}
                Some("system") => system_roots = true,
                Some(path) => {
                    let pem = read(path, "sslrootcert")?;
                    certificates(&pem, "sslrootcert")?;
                    trust.authority = Some(pem);
                }
            }
        }
        let (attempts, verify) = decide(
            ssl.mode,
            trust.authority.is_some() || system_roots,
            trust.insecure_skip_verify,
        );
        trust.insecure_skip_verify = verify == Verify::Nothing;
        let mut config = trust.client_config()?;
        if verify == Verify::Chain {
            let verifier = AnyName(trust.verifier()?);
            config
                .dangerous()
                .set_certificate_verifier(Arc::new(verifier));
        }
        if ssl.direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        identify(&mut config, ssl)?;
        Ok(Self {
            attempts,
            connect: MakeRustlsConnect::new(config),
        })
    }
}

/// The table of the module's documentation.
fn decide(mode: Option<SslMode>, authority: bool, insecure: bool) -> (&'static [Attempt], Verify) {
    let chain_if = |known: bool| {
        if known {
            Verify::Chain
        } else {
            Verify::Nothing
        }
    };
    let (attempts, verify): (&[Attempt], _) = match mode {
        None if authority => (&[Attempt::Encrypted], Verify::ChainAndName),
        None | Some(SslMode::Prefer) => {
            (&[Attempt::IfOffered, Attempt::Plain], chain_if(authority))
        }
        Some(SslMode::Disable) => (&[Attempt::Plain], Verify::Nothing),
        Some(SslMode::Allow) => (&[Attempt::Plain, Attempt::Encrypted], chain_if(authority)),
        Some(SslMode::Require) => (&[Attempt::Encrypted], chain_if(authority)),
        Some(SslMode::VerifyCa) => (&[Attempt::Encrypted], Verify::Chain),
        Some(SslMode::VerifyFull) => (&[Attempt::Encrypted], Verify::ChainAndName),
    };
    (attempts, if insecure { Verify::Nothing } else { verify })
}

/// Presents the client's certificate, if the connection string names one.
fn identify(config: &mut ClientConfig, ssl: &Ssl) -> Result<(), SinkError> {
    let (certificate, key) = match (&ssl.certificate, &ssl.key) {
        (None, None) => return Ok(()),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => {
            return Err(SinkError::terminal(
                "postgres connect: sslcert and sslkey of the connection string go together",
            ));
        }
    };
    let chain = certificates(&read(certificate, "sslcert")?, "sslcert")?;
    let key =
        PrivateKeyDer::from_pem_slice(&read(key, "sslkey")?).map_err(|_| unreadable("sslkey"))?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|_| SinkError::terminal("postgres connect: sslkey does not belong to sslcert"))?;
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    Ok(())
}

fn certificates(pem: &[u8], key: &str) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| unreadable(key))?;
    if chain.is_empty() {
        return Err(unreadable(key));
    }
    Ok(chain)
}

/// A small file in the operator's pod.
fn read(path: &str, key: &str) -> Result<Vec<u8>, SinkError> {
    fs::read(path).map_err(|_| unreadable(key))
}

/// The same text whether the file is missing or no certificate: whoever writes a connection string
/// must not be able to look around in the operator's pod.
fn unreadable(key: &str) -> SinkError {
    SinkError::terminal(format!(
        "postgres connect: {key} of the connection string is not a readable PEM file in the operator's pod; \
         authorities can be given in spec.tls instead"
    ))
}

/// Verifies as another verifier does, except for the name: `verify-ca`.
#[derive(Debug)]
struct AnyName(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last, when everything else has been found right.
        match self
            .0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        use Attempt::{Encrypted, IfOffered, Plain};
        use Verify::{Chain, ChainAndName, Nothing};
        let modes = [
            (
                None,
                &[IfOffered, Plain][..],
                Nothing,
                &[Encrypted][..],
                ChainAndName,
            ),
            (Some(SslMode::Disable), &[Plain], Nothing, &[Plain], Nothing),
            (
                Some(SslMode::Allow),
                &[Plain, Encrypted],
                Nothing,
                &[Plain, Encrypted],
                Chain,
            ),
            (
                Some(SslMode::Prefer),
                &[IfOffered, Plain],
                Nothing,
                &[IfOffered, Plain],
                Chain,
            ),
            (
                Some(SslMode::Require),
                &[Encrypted],
                Nothing,
                &[Encrypted],
                Chain,
            ),
            (
                Some(SslMode::VerifyCa),
                &[Encrypted],
                Chain,
                &[Encrypted],
                Chain,
            ),
            (
                Some(SslMode::VerifyFull),
                &[Encrypted],
                ChainAndName,
                &[Encrypted],
                ChainAndName,
            ),
        ];
        for (mode, attempts, verify, attempts_with, verify_with) in modes {
            assert_eq!(decide(mode, false, false), (attempts, verify), "{mode:?}");
            assert_eq!(
                decide(mode, true, false),
                (attempts_with, verify_with),
                "{mode:?}"
            );
            assert_eq!(
                decide(mode, true, true),
                (attempts_with, Nothing),
                "{mode:?}"
            );
        }
    }
}
