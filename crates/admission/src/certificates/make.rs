//! Keys and certificates.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

use super::{BACKDATED, Content, Pair, Step, Terms, Validity};

/// What every authority of ours is called. Which one signed, their keys tell.
const AUTHORITY: &str = "kollect webhook authority";

/// Something could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// A key or a certificate.
    #[error("cannot make a certificate for the webhooks: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The clock says something that no certificate can hold.
    #[error("cannot make a certificate for the webhooks: the clock says {0}, which none can hold")]
    Clock(Timestamp),
}

/// Takes a step. Nothing if there is nothing to write.
pub fn take(
    step: &Step,
    content: Option<&Content>,
    names: &[String],
    now: Timestamp,
    terms: &Terms,
) -> Result<Option<Content>, MakeError> {
    let Some(content) = content.filter(|_| !matches!(step, Step::Replace(_))) else {
        return match step {
            Step::Replace(_) => anew(names, now, terms).map(Some),
            _ => Ok(None),
        };
    };
    let mut content = content.clone();
    match step {
        Step::Keep | Step::Replace(_) => return Ok(None),
        Step::Renew(_) => content.serving = serving(&content.authority, names, now, terms)?,
        Step::Announce => content.next = Some(authority(now, terms)?),
        Step::Switch => {
            let Some(next) = content.next.take() else {
                return Ok(None);
            };
            content.serving = serving(&next, names, now, terms)?;
            let former = std::mem::replace(&mut content.authority, next);
            content.former = vec![former.certificate];
        }
        Step::Retire => content.former.clear(),
    }
    Ok(Some(content))
}

fn anew(names: &[String], now: Timestamp, terms: &Terms) -> Result<Content, MakeError> {
    let authority = authority(now, terms)?;
    let serving = serving(&authority, names, now, terms)?;
    Ok(Content {
        authority,
        former: Vec::new(),
        next: None,
        serving,
    })
}

fn authority(now: Timestamp, terms: &Terms) -> Result<Pair, MakeError> {
    let key = KeyPair::generate()?;
    let mut params = authority_params();
    let (from, until) = life(now, terms.authority)?;
    params.not_before = from;
    params.not_after = until;
    Ok(Pair {
        certificate: params.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn serving(
    authority: &Pair,
    names: &[String],
    now: Timestamp,
    terms: &Terms,
) -> Result<Pair, MakeError> {
    let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&authority.key)?);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    let name = names.first().map_or("kollect", String::as_str);
    // Longer ones are not allowed there, and nobody looks there for names any more.
    if name.len() <= 64 {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let (from, until) = life(now, terms.serving)?;
    params.not_before = from;
    params.not_after = until;
    // Nothing outlives its authority.
    if let Some(ends) = ends(&authority.certificate) {
        params.not_after = params.not_after.min(ends);
    }
    Ok(Pair {
        certificate: params.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    })
}

fn ends(certificate: &str) -> Option<OffsetDateTime> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let until = Validity::of(&der)?.until.as_second();
    OffsetDateTime::from_unix_timestamp(until).ok()
}

/// The times of something that is made now and holds this long.
fn life(now: Timestamp, holds: Duration) -> Result<(OffsetDateTime, OffsetDateTime), MakeError> {
    let at = |seconds: i64| {
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| MakeError::Clock(now))
    };
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4);
    let now = now.as_second();
    Ok((at(now - seconds(BACKDATED))?, at(now + seconds(holds))?))
}
