//! Which key an SSH server has to show.

use std::fmt;

use ring::hmac;
use russh::keys::{
    Algorithm, HashAlg, PublicKey,
    ssh_key::known_hosts::{Entry, HostPatterns, Marker},
};

use crate::git::error::GitError;

/// Names of hosts have at most 255 characters; a longer pattern matches none that matters.
const LONGEST: usize = 1024;
/// Lines that are looked at; every connection asks all of them.
const MOST_LINES: usize = 10_000;

/// The content of a `known_hosts` file.
#[derive(Clone)]
pub(in crate::git) struct KnownHosts(Vec<Entry>);

impl KnownHosts {
    /// Reads the content. Lines that cannot be read are left out, as every SSH client does: they
    /// may be of a kind of key that is not known here.
    pub(in crate::git) fn parse(text: &str) -> Result<Self, GitError> {
        let entries: Vec<Entry> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .take(MOST_LINES)
            .filter_map(|line| line.parse().ok())
            .collect();
        if entries.is_empty() {
            return Err(GitError::Configuration(
                "known_hosts of the Secret has no usable line; write what ssh-keyscan prints"
                    .into(),
            ));
        }
        Ok(Self(entries))
    }

    /// Whether a server may show this key.
    pub(super) fn trusts(&self, host: &str, port: u16, key: &PublicKey) -> bool {
        let same = |entry: &Entry| entry.public_key().key_data() == key.key_data();
        let mut trusted = false;
        for entry in self.of(host, port).filter(|entry| same(entry)) {
            match entry.marker() {
                Some(Marker::Revoked) => return false,
                // A key that signs host certificates is not the key of a host.
                Some(Marker::CertAuthority) => {}
                None => trusted = true,
            }
        }
        trusted
    }

    /// The kinds of key known of a server. Only these are asked for, since a server that has several
    /// would otherwise show one that nobody wrote down.
    pub(super) fn algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        let mut algorithms = Vec::new();
        for entry in self.of(host, port).filter(|entry| entry.marker().is_none()) {
            let offers = match entry.public_key().algorithm() {
                Algorithm::Rsa { .. } => [HashAlg::Sha512, HashAlg::Sha256]
                    .map(|hash| Algorithm::Rsa { hash: Some(hash) })
                    .to_vec(),
                other => vec![other],
            };
            for offer in offers {
                if !algorithms.contains(&offer) {
                    algorithms.push(offer);
                }
            }
        }
        algorithms
    }

    fn of(&self, host: &str, port: u16) -> impl Iterator<Item = &Entry> {
        let name = if port == 22 {
            host.to_ascii_lowercase()
        } else {
            format!("[{}]:{port}", host.to_ascii_lowercase())
        };
        self.0
            .iter()
            .filter(move |entry| matches(entry.host_patterns(), &name))
    }
}

impl fmt::Debug for KnownHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownHosts({} lines)", self.0.len())
    }
}

fn matches(patterns: &HostPatterns, name: &str) -> bool {
    match patterns {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, name.as_bytes(), hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let mut found = false;
            for pattern in patterns {
                match pattern.strip_prefix('!') {
                    Some(pattern) if fits(pattern.as_bytes(), name.as_bytes()) => return false,
                    Some(_) => {}
                    None => found |= fits(pattern.as_bytes(), name.as_bytes()),
                }
            }
            found
        }
    }
}

/// `*` stands for anything, `?` for one character. Going back to the last `*` is enough: what an
/// earlier one could take, the last one can take as well.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if pattern.len() > LONGEST {
        return false;
    }
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted.eq_ignore_ascii_case(&name[of]) => {
                at += 1;
                of += 1;
            }
            _ => match &mut star {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, of) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJsjxgV26ZWnGK3YeuOXrpKyCJk6Jp2bMVqYxmTXdj3S";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINXPW2X5YzUYFcwUmnEVJTC0DMiKlSgCsB/m2MiU6Df5";

    fn trusts(line: &str, host: &str, port: u16) -> bool {
        let key: PublicKey = ED.parse().unwrap();
        KnownHosts::parse(line).unwrap().trusts(host, port, &key)
    }

    #[test]
    fn lines_are_matched_as_ssh_does() {
        for (hosts, host, port, expected) in [
            ("git.example", "git.example", 22, true),
            ("git.example", "Git.Example", 22, true),
            ("git.example", "git.example", 2222, false),
            ("[git.example]:2222", "git.example", 2222, true),
            ("[git.example]:2222", "git.example", 22, false),
            ("a.example,git.example", "git.example", 22, true),
            ("*.example", "git.example", 22, true),
            ("*.example,!git.example", "git.example", 22, false),
            ("gi?.example", "git.example", 22, true),
            ("*", "git.example", 22, true),
            ("other.example", "git.example", 22, false),
            // Of `ssh-keygen -H` for git.example.
            (
                "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|I7JTDpJlcQbNpLJPGQqFzoUhSZ0=",
                "elsewhere",
                22,
                false,
            ),
        ] {
            assert_eq!(
                trusts(&format!("{hosts} {ED} comment"), host, port),
                expected,
                "{hosts} {host}"
            );
        }
        assert!(!trusts(&format!("git.example {OTHER}"), "git.example", 22));
        let revoked = format!("git.example {ED}\n@revoked * {ED}\n");
        assert!(!trusts(&revoked, "git.example", 22));
        assert!(!trusts(
            &format!("@cert-authority * {ED}"),
            "git.example",
            22
        ));
        let several = format!("# comment\nnonsense\ngit.example {OTHER}\ngit.example {ED}\n");
        assert!(trusts(&several, "git.example", 22));
    }

    #[test]
    fn a4_patterns_of_many_stars_are_matched_at_once() {
        let begun = std::time::Instant::now();
        let name = "a".repeat(255);
        for (pattern, expected) in [
            (format!("{}b", "a*".repeat(100)), false),
            (format!("{}b", "*a".repeat(100)), false),
            (format!("{}b", "*".repeat(1000)), false),
            (format!("{}?", "*".repeat(1000)), true),
            ("a*".repeat(100), true),
            ("*a".repeat(300), false),
            ("*".repeat(2000), false),
        ] {
            let found = fits(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern}");
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(1));
        for (pattern, name, expected) in [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyyd", false),
            ("*.example", "a.example.example", true),
            ("a?c", "aBc", true),
            ("a", "ab", false),
        ] {
            let found = fits(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn hashed_names_are_found() {
        let salt = [7_u8; 20];
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
        let hash: [u8; 20] = hmac::sign(&key, b"[git.example]:2222")
            .as_ref()
            .try_into()
            .unwrap();
        let hashed = HostPatterns::HashedName {
            salt: salt.to_vec(),
            hash,
        };
        assert!(matches(&hashed, "[git.example]:2222"));
        assert!(!matches(&hashed, "git.example"));
    }

    #[test]
    fn only_known_kinds_of_key_are_asked_for() {
        let known = KnownHosts::parse(&format!("a {ED}\nb {OTHER}\n")).unwrap();
        assert_eq!(known.algorithms("a", 22), [Algorithm::Ed25519]);
        assert!(known.algorithms("c", 22).is_empty());
        assert!(KnownHosts::parse("\n# nothing\n").is_err());
    }
}
