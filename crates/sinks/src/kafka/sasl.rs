//! Logging in: PLAIN, SCRAM and OAUTHBEARER.
//!
//! Pure: what to say next, given what the broker said. The broker has to prove that it knows the
//! password too (SCRAM), or the login fails.

use std::num::NonZeroU32;

use base64::{Engine, engine::general_purpose::STANDARD};
use kollect_api::sink::event::SaslMechanism;
use ring::{digest, hmac, pbkdf2};

use crate::{error::SinkError, secret::SecretText};

/// More rounds than any broker asks for (Kafka: at most 16,384); a hostile one would ask for years.
const ROUNDS: u32 = 65_536;

/// User and password, or a token, and how they are shown to the broker.
#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) mechanism: SaslMechanism,
    pub(super) user: SecretText,
    pub(super) password: SecretText,
}

/// What a broker's part of a login is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misstep {
    #[error("kafka SASL: the broker does not follow SCRAM; check that it is a Kafka broker")]
    Protocol,
    #[error("kafka SASL: the broker asks for more rounds of hashing than is reasonable")]
    Rounds,
    #[error(
        "kafka SASL: the broker does not know the password itself; it may not be the one you mean"
    )]
    Impostor,
}

impl From<Misstep> for SinkError {
    fn from(misstep: Misstep) -> Self {
        SinkError::terminal(misstep.to_string())
    }
}

impl Login {
    /// What no broker would be shown: control characters have no place in passwords (RFC 4013).
    pub(super) fn check(&self) -> Result<(), SinkError> {
        let control = |text: &SecretText| text.expose().chars().any(char::is_control);
        if control(&self.user) || control(&self.password) {
            return Err(SinkError::terminal(
                "kafka SASL: authentication configuration failed",
            ));
        }
        Ok(())
    }

    /// All there is to say with mechanisms of one step.
    pub(super) fn at_once(&self) -> Option<Vec<u8>> {
        let (user, password) = (self.user.expose(), self.password.expose());
        match self.mechanism {
            SaslMechanism::Plain => Some(format!("\0{user}\0{password}").into_bytes()),
            SaslMechanism::Oauthbearer => {
                Some(format!("n,,\x01auth=Bearer {password}\x01\x01").into_bytes())
            }
            SaslMechanism::ScramSha256 | SaslMechanism::ScramSha512 => None,
        }
    }
}

/// A login by SCRAM (RFC 5802), without channel binding, as Kafka does it.
pub(super) struct Scram<'a> {
    login: &'a Login,
    first: String,
    nonce: String,
}

/// What the client says last, and what the broker has to answer.
pub(super) struct Proof {
    pub(super) text: String,
    server: hmac::Key,
    spoken: String,
}

impl<'a> Scram<'a> {
    /// `nonce` is random and printable, without commas.
    pub(super) fn new(login: &'a Login, nonce: String) -> Self {
        let user = login.user.expose().replace('=', "=3D").replace(',', "=2C");
        Self {
            login,
            first: format!("n={user},r={nonce}"),
            nonce,
        }
    }

    pub(super) fn opening(&self) -> String {
        format!("n,,{}", self.first)
    }

    pub(super) fn answer(&self, challenge: &[u8]) -> Result<Proof, Misstep> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| Misstep::Protocol)?;
        let field = |name: &str| {
            let mut fields = challenge.split(',');
            fields
                .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
                .ok_or(Misstep::Protocol)
        };
        let nonce = field("r")?;
        // The broker adds to our nonce; one that does not repeats an old conversation.
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Misstep::Protocol);
        }
        let salt = STANDARD
            .decode(field("s")?)
            .map_err(|_| Misstep::Protocol)?;
        let rounds: NonZeroU32 = field("i")?.parse().map_err(|_| Misstep::Protocol)?;
        if rounds.get() > ROUNDS {
            return Err(Misstep::Rounds);
        }
        let (stretch, sign, hash) = match self.login.mechanism {
            SaslMechanism::ScramSha512 => (
                pbkdf2::PBKDF2_HMAC_SHA512,
                hmac::HMAC_SHA512,
                &digest::SHA512,
            ),
            _ => (
                pbkdf2::PBKDF2_HMAC_SHA256,
                hmac::HMAC_SHA256,
                &digest::SHA256,
            ),
        };
        let mut salted = vec![0; hash.output_len()];
        let password = self.login.password.expose().as_bytes();
        pbkdf2::derive(stretch, rounds, &salt, password, &mut salted);
        let salted = hmac::Key::new(sign, &salted);
        let client = hmac::sign(&salted, b"Client Key");
        let server = hmac::sign(&salted, b"Server Key");
        let stored = digest::digest(hash, client.as_ref());
        let last = format!("c=biws,r={nonce}");
        let spoken = format!("{},{challenge},{last}", self.first);
        let stored = hmac::Key::new(sign, stored.as_ref());
        let signature = hmac::sign(&stored, spoken.as_bytes());
        let pairs = client.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, mask)| key ^ mask).collect();
        Ok(Proof {
            text: format!("{last},p={}", STANDARD.encode(proof)),
            server: hmac::Key::new(sign, server.as_ref()),
            spoken,
        })
    }
}

impl Proof {
    /// Whether the broker's last word shows that it knows the password.
    pub(super) fn check(&self, last: &[u8]) -> Result<(), Misstep> {
        let shown = last.strip_prefix(b"v=").ok_or(Misstep::Protocol)?;
        let shown = shown.split(|byte| *byte == b',').next().unwrap_or_default();
        let shown = STANDARD.decode(shown).map_err(|_| Misstep::Protocol)?;
        hmac::verify(&self.server, self.spoken.as_bytes(), &shown).map_err(|_| Misstep::Impostor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(mechanism: SaslMechanism, user: &str, password: &str) -> Login {
        Login {
            mechanism,
            user: user.into(),
            password: password.into(),
        }
    }

    /// The example of RFC 7677.
    #[test]
    fn follows_the_standard() {
        let login = login(SaslMechanism::ScramSha256, "user", "pencil");
        let scram = Scram::new(&login, "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.opening(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = scram.answer(challenge).unwrap();
        assert_eq!(
            proof.text,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        let last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(proof.check(last), Ok(()));
        let other = b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(proof.check(other), Err(Misstep::Impostor));
        assert_eq!(proof.check(b"e=other-error"), Err(Misstep::Protocol));
    }

    #[test]
    fn a_broker_cannot_repeat_or_keep_us_busy() {
        let login = login(SaslMechanism::ScramSha512, "a=b,c", "pencil");
        let scram = Scram::new(&login, "abc".to_owned());
        assert_eq!(scram.opening(), "n,,n=a=3Db=2Cc,r=abc");
        for (challenge, expected) in [
            ("r=abc,s=W22Z,i=4096", Misstep::Protocol),
            ("r=xyzabc,s=W22Z,i=4096", Misstep::Protocol),
            ("r=abcd,s=W22Z,i=0", Misstep::Protocol),
            ("r=abcd,s=,,i=", Misstep::Protocol),
            ("r=abcd,s=W22Z,i=4000000000", Misstep::Rounds),
            ("", Misstep::Protocol),
        ] {
            let answer = scram.answer(challenge.as_bytes());
            assert_eq!(answer.err(), Some(expected), "{challenge}");
        }
    }

    /// E17: the password is in no text.
    #[test]
    fn e17_control_characters_are_refused() {
        let error = login(SaslMechanism::ScramSha256, "u", "pass\u{7}word").check();
        assert_eq!(
            error,
            Err(SinkError::terminal(
                "kafka SASL: authentication configuration failed"
            ))
        );
        assert_eq!(login(SaslMechanism::Plain, "u", "p w").check(), Ok(()));
    }

    #[test]
    fn mechanisms_of_one_step() {
        let plain = login(SaslMechanism::Plain, "u", "p");
        assert_eq!(plain.at_once().unwrap(), b"\0u\0p");
        let token = login(SaslMechanism::Oauthbearer, "", "t");
        assert_eq!(token.at_once().unwrap(), b"n,,\x01auth=Bearer t\x01\x01");
    }
}
