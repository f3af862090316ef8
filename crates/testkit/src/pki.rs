//! A certificate authority per server, so that tests prove which authority a client trusts.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority that exists for one run.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its private key, both as PEM; the key is PKCS#8.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub cert_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl Authority {
    /// A new authority called `name`.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .context("cannot create a certificate authority")?;
        Ok(Self { issuer })
    }

    /// The certificate of the authority, for clients to trust.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server certificate for these DNS names and IP addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "server");
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate; Kubernetes reads `user` and `group` as the names to authorise.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = params
            .signed_by(&key, &self.issuer)
            .context("cannot sign a certificate")?;
        Ok(Identity {
            cert_pem: cert.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

impl Identity {
    /// What a server that shows this certificate is set up with.
    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>> {
        let cert = CertificateDer::from_pem_slice(self.cert_pem.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert], key)?;
        Ok(Arc::new(config))
    }
}

/// A new RSA key, PKCS#8 PEM. What makes certificates here makes none, so `openssl` does.
pub fn rsa_key() -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = crate::debian::ensure("openssl", || {
        crate::debian::first_file(std::env::split_paths(&path).map(|dir| dir.join("openssl")))
    })?;
    let output = std::process::Command::new(program)
        .args(["genpkey", "-quiet", "-algorithm", "RSA"])
        .args(["-pkeyopt", "rsa_keygen_bits:2048"])
        .output()?;
    anyhow::ensure!(output.status.success(), "openssl made no key");
    Ok(String::from_utf8(output.stdout)?)
}

/// A key pair without certificate, such as the one that signs service account tokens.
pub struct SigningKey {
    /// The private key, PKCS#8 PEM.
    pub private_pem: String,
    /// The public key, SubjectPublicKeyInfo PEM.
    pub public_pem: String,
}

impl SigningKey {
    /// A new ECDSA P-256 key.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate()?;
        Ok(Self {
            private_pem: key.serialize_pem(),
            public_pem: key.public_key_pem(),
        })
    }
}
