//! The Secret as values, and whether they belong together.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::{
    CertificateError, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    sign::CertifiedKey,
};

use super::Validity;

const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const NEXT: &str = "next-ca.crt";
const NEXT_KEY: &str = "next-ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// A certificate and its key, in PEM. The key is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// What the Secret holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The authority that signs.
    pub authority: Pair,
    /// Those that signed before and are to be trusted for a while.
    pub former: Vec<String>,
    /// The one that will sign, once everybody trusts it.
    pub next: Option<Pair>,
    /// What is served.
    pub serving: Pair,
}

/// Why a content is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Something is missing, or cannot be read.
    #[error("{0} is missing or cannot be read")]
    Unreadable(&'static str),
    /// A key is not that of its certificate.
    #[error("{0} is not the key of its certificate")]
    OtherKey(&'static str),
    /// The serving certificate is not of the authority.
    #[error("tls.crt was not signed by the authority in ca.crt: {0}")]
    OtherAuthority(String),
}

/// A content that belongs together.
pub(super) struct Checked {
    pub(super) authority: Validity,
    pub(super) next: Option<Validity>,
    pub(super) serving: Validity,
    /// Whether the serving certificate is for all names.
    pub(super) named: bool,
}

impl Content {
    /// Reads a Secret.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Unusable> {
        let text = |key: &'static str| {
            let bytes = data.get(key).map(|bytes| bytes.0.clone());
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.ok_or(Unusable::Unreadable(key))
        };
        let mut authorities = certificates(&text(AUTHORITIES)?)
            .ok_or(Unusable::Unreadable(AUTHORITIES))?
            .into_iter()
            .map(|der| pem(&der));
        let authority = authorities
            .next()
            .ok_or(Unusable::Unreadable(AUTHORITIES))?;
        let next = if data.contains_key(NEXT) {
            Some(Pair {
                certificate: text(NEXT)?,
                key: text(NEXT_KEY)?,
            })
        } else {
            None
        };
        // The next one is listed in ca.crt as well, for whoever reads only that.
        let former = authorities.filter(|former| {
            next.as_ref().is_none_or(|next| {
                certificates(&next.certificate)
                    .is_none_or(|next| !next.iter().any(|der| pem(der) == *former))
            })
        });
        Ok(Self {
            authority: Pair {
                certificate: authority,
                key: text(AUTHORITY_KEY)?,
            },
            former: former.collect(),
            next,
            serving: Pair {
                certificate: text(CERTIFICATE)?,
                key: text(KEY)?,
            },
        })
    }

    /// The data of a Secret.
    pub fn write(&self) -> BTreeMap<String, ByteString> {
        let mut data = vec![
            (AUTHORITIES, self.bundle()),
            (AUTHORITY_KEY, self.authority.key.clone()),
            (CERTIFICATE, self.serving.certificate.clone()),
            (KEY, self.serving.key.clone()),
        ];
        if let Some(next) = &self.next {
            data.push((NEXT, next.certificate.clone()));
            data.push((NEXT_KEY, next.key.clone()));
        }
        let data = data.into_iter();
        data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect()
    }

    /// All authorities that are to be trusted, the one that signs first.
    pub fn bundle(&self) -> String {
        let next = self.next.iter().map(|next| &next.certificate);
        let all = [&self.authority.certificate].into_iter();
        let all = all.chain(&self.former).chain(next);
        let mut bundle = String::new();
        for certificate in all {
            bundle.push_str(certificate.trim_end());
            bundle.push('\n');
        }
        bundle
    }

    /// When the serving certificate ends, if it is one.
    pub fn ends(&self) -> Option<Timestamp> {
        let chain = certificates(&self.serving.certificate)?;
        Some(Validity::of(chain.first()?)?.until)
    }

    /// Whether everything belongs together.
    pub(super) fn check(&self, names: &[String]) -> Result<Checked, Unusable> {
        let (authority, authority_valid) = read(&self.authority.certificate, AUTHORITIES)?;
        own(&authority, &self.authority.key, AUTHORITY_KEY)?;
        let next = match &self.next {
            None => None,
            Some(next) => {
                let (certificate, valid) = read(&next.certificate, NEXT)?;
                own(&certificate, &next.key, NEXT_KEY)?;
                Some(valid)
            }
        };
        let (serving, serving_valid) = read(&self.serving.certificate, CERTIFICATE)?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes())
            .map_err(|_| Unusable::Unreadable(KEY))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        CertifiedKey::from_der(vec![serving.clone()], key, &provider)
            .map_err(|_| Unusable::OtherKey(KEY))?;
        let mut roots = RootCertStore::empty();
        roots
            .add(authority)
            .map_err(|_| Unusable::Unreadable(AUTHORITIES))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
            .build()
            .map_err(|error| Unusable::OtherAuthority(error.to_string()))?;
        // Whether it has ended is another question, with an answer of its own.
        let made = u64::try_from(serving_valid.made().as_second()).unwrap_or_default();
        let made = UnixTime::since_unix_epoch(Duration::from_secs(made));
        let mut named = true;
        for name in names {
            let Ok(name) = ServerName::try_from(name.as_str()) else {
                continue;
            };
            match verifier.verify_server_cert(&serving, &[], &name, &[], made) {
                Ok(_) => {}
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => named = false,
                Err(error) => return Err(Unusable::OtherAuthority(error.to_string())),
            }
        }
        Ok(Checked {
            authority: authority_valid,
            next,
            serving: serving_valid,
            named,
        })
    }
}

fn certificates(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes());
    all.collect::<Result<Vec<_>, _>>().ok()
}

fn read(text: &str, field: &'static str) -> Result<(CertificateDer<'static>, Validity), Unusable> {
    let first = certificates(text).and_then(|all| all.into_iter().next());
    let read = first.and_then(|der| Validity::of(&der).map(|validity| (der, validity)));
    read.ok_or(Unusable::Unreadable(field))
}

/// Whether this is the key of an authority: its public half is in the certificate.
fn own(certificate: &[u8], key: &str, field: &'static str) -> Result<(), Unusable> {
    let key = KeyPair::from_pem(key).map_err(|_| Unusable::Unreadable(field))?;
    let public = key.der_bytes();
    if certificate.windows(public.len()).any(|part| part == public) {
        Ok(())
    } else {
        Err(Unusable::OtherKey(field))
    }
}

fn pem(der: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
