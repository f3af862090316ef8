//! The serving certificate: self-signed, from files that may change, or handed over by somebody.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
};

/// Names in a certificate that is made here. Nobody can check them: callers who care bring files.
const NAMES: [&str; 2] = ["localhost", "kollect"];

/// A certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path} does not hold {expected} in PEM format")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// Certificate and key are not usable.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("cannot make a self-signed certificate: {0}")]
    NotMade(#[from] rcgen::Error),
}

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The certificate that a listener serves.
pub struct Certificate {
    files: Option<CertificateFiles>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    /// How the files looked when they were read.
    seen: Option<Seen>,
}

type Seen = [(SystemTime, u64); 2];

impl Certificate {
    /// Makes a certificate that exists in this process only.
    pub fn self_signed() -> Result<Self, CertificateError> {
        let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = config(vec![made.cert.der().clone()], key.into())?;
        Ok(Self {
            files: None,
            loaded: Mutex::new(Loaded { config, seen: None }),
        })
    }

    /// Reads a certificate from files, and reads it again whenever they change.
    pub fn from_files(files: CertificateFiles) -> Result<Self, CertificateError> {
        let seen = files.look().ok();
        let config = files.load()?;
        Ok(Self {
            files: Some(files),
            loaded: Mutex::new(Loaded { config, seen }),
        })
    }

    /// Serves this from the next connection on.
    pub fn swap(&self, certificate: &str, key: &str) -> Result<(), CertificateError> {
        let unreadable = |_| rustls::Error::General("it cannot be read".to_owned());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(unreadable)?;
        let config = config(chain, key)?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.config = config;
        Ok(())
    }

    /// What to serve the next connection with. Files that cannot be used, as in the middle of a
    /// change, leave the old certificate in force.
    pub fn current(&self) -> Arc<ServerConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = &self.files
            && let Ok(seen) = files.look()
            && loaded.seen != Some(seen)
        {
            match files.load() {
                Ok(config) => {
                    tracing::info!(file = %files.certificate.display(), "certificate reloaded");
                    loaded.config = config;
                }
                Err(error) => tracing::warn!(%error, "keeping the old certificate"),
            }
            loaded.seen = Some(seen);
        }
        Arc::clone(&loaded.config)
    }
}

impl CertificateFiles {
    fn look(&self) -> io::Result<Seen> {
        let look = |path: &Path| {
            let metadata = fs::metadata(path)?;
            Ok::<_, io::Error>((metadata.modified()?, metadata.len()))
        };
        Ok([look(&self.certificate)?, look(&self.key)?])
    }

    fn load(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let malformed = |path: &Path, expected| CertificateError::Malformed {
            path: path.to_owned(),
            expected,
        };
        let pem = read(&self.certificate)?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .ok()
            .filter(|chain: &Vec<_>| !chain.is_empty())
            .ok_or_else(|| malformed(&self.certificate, "a certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_| malformed(&self.key, "a private key"))?;
        Ok(config(chain, key)?)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
