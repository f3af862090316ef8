//! What may leave in an error text.
//!
//! Libraries put into their messages what they were given: URLs with passwords, hosts that only a
//! Secret knows, request headers. Every text of a library passes through a [`Redaction`] before it
//! leaves the sink layer. Clean the library's text first and put the stage in front afterwards, so
//! that a database called `postgres` does not hide the word in `postgres upsert`.
//!
//! Cleaning costs what the text and the Secrets are long, and both are bounded: of a long text the
//! beginning is read, and for Secrets too long to be searched for, no text leaves at all.

mod connection;
mod search;
mod sink;
#[cfg(test)]
mod tests;
mod view;

use std::{collections::BTreeSet, fmt};

pub use self::sink::Redacted;

use self::{search::Needles, view::View};
use crate::{
    error::SinkError,
    secret::{SecretData, SecretText},
};

/// What stands in place of what was removed.
const REMOVED: &str = "[redacted]";

/// Shorter values are not searched for: they would be found everywhere, and what remained of the
/// text would tell them anyway.
const SHORTEST_VALUE: usize = 3;
const SHORTEST_NAME: usize = 2;

/// Longer values are searched for in pieces of this size, each of them: whoever shows the value
/// shows all its pieces.
const PIECE: usize = 512;

/// How much of a text leaves, and how much of it is read. The difference holds the longest spelling
/// of a piece, so what is cut off cannot leave the beginning of a secret behind.
const LONGEST_SHOWN: usize = 8 * 1024;
const LONGEST_READ: usize = 2 * LONGEST_SHOWN;

/// What is searched for at most, in bytes. Credentials have a few hundred, keys a few thousand.
const LARGEST: usize = 128 * 1024;

/// What leaves if the Secrets are larger.
const WITHHELD: &str = "the reason is withheld: the Secrets of the sink hold more than 128 KiB of text, \
     too much to look for in it; give the sink a Secret that holds its credentials only";

/// Lines of a longer value (a private key) that are searched for on their own.
const SHORTEST_LINE: usize = 16;

/// Account names that every user of a hosting service shares. Hiding them hides nothing, and would
/// turn every "git" of a message into a riddle.
const PUBLIC_ACCOUNTS: [&str; 5] = [
    "git",
    "oauth2",
    "x-access-token",
    "x-token-auth",
    "gitlab-ci-token",
];

/// Keys of Secrets, as operators of databases write them, whose values are names: not to be shown,
/// but to be searched for as words only, since `app` is part of many.
const NAME_KEYS: [&str; 7] = [
    "username", "user", "host", "hostname", "port", "dbname", "database",
];

/// Keys of Secrets whose values are public.
const PUBLIC_KEYS: [&str; 5] = ["known_hosts", "provider", "region", "sslmode", "type"];

/// Removes secrets from texts.
///
/// Two kinds of things are removed: values (passwords, tokens, whole connection strings) wherever
/// they appear, also percent-encoded, escaped or inside base64; and names (users, hosts, databases
/// of a connection string) where they stand as words. Passwords in URLs go even if nobody knows
/// them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redaction {
    values: BTreeSet<String>,
    names: BTreeSet<String>,
    /// Bytes of both.
    size: usize,
    /// There is too much to search for.
    withholds: bool,
}

impl Redaction {
    /// Removes these values.
    pub fn new(values: impl IntoIterator<Item = SecretText>) -> Self {
        let mut redaction = Self::default();
        for value in values {
            redaction.add_value(value.expose());
        }
        redaction
    }

    /// Removes everything that these Secrets hold, and the parts of connection strings in them.
    pub fn of_secrets<'a>(secrets: impl IntoIterator<Item = &'a SecretData>) -> Self {
        let mut redaction = Self::default();
        for (key, value) in secrets.into_iter().flat_map(SecretData::iter) {
            let Some(text) = value.text() else { continue };
            if PUBLIC_KEYS.contains(&key) || is_public(text.expose()) {
                continue;
            }
            if NAME_KEYS.contains(&key) {
                if !PUBLIC_ACCOUNTS.contains(&text.expose().trim()) {
                    redaction.add_name(text.expose());
                }
                continue;
            }
            redaction.add_value(text.expose());
            redaction.add_lines(text.expose());
            redaction.add_connection_string(text.expose());
            redaction.add_document(text.expose());
        }
        redaction
    }

    /// Removes these values too.
    #[must_use]
    pub fn and(mut self, values: impl IntoIterator<Item = SecretText>) -> Self {
        for value in values {
            self.add_value(value.expose());
        }
        self
    }

    /// Removes these names too, where they stand as words.
    #[must_use]
    pub fn and_names(mut self, names: impl IntoIterator<Item = SecretText>) -> Self {
        for name in names {
            self.add_name(name.expose());
        }
        self
    }

    /// The text without secrets.
    pub fn clean(&self, text: &str) -> String {
        self.remove(true, text)
    }

    /// The same error without values. Names stay, since part of the text may be ours.
    pub(crate) fn last_look(&self, error: SinkError) -> SinkError {
        error.map_message(|text| self.clean_values(&text))
    }

    /// The text without values; names stay.
    fn clean_values(&self, text: &str) -> String {
        self.remove(false, text)
    }

    fn remove(&self, with_names: bool, text: &str) -> String {
        if self.withholds {
            return WITHHELD.to_owned();
        }
        let read = &text[..text.floor_char_boundary(LONGEST_READ)];
        let is_cut = read.len() < text.len();
        let mut hidden = vec![false; read.len()];
        view::hide_userinfo(read, &mut hidden);
        let values = Needles::values(&self.values);
        let names = Needles::names(self.names.iter().filter(|_| with_names));
        for view in View::all(read) {
            view.hide(&values, &mut hidden);
            view.hide_words(&names, &mut hidden);
            view.hide_base64(&values, &mut hidden);
        }
        if !is_cut {
            return without(read, &hidden);
        }
        let shown = read.floor_char_boundary(LONGEST_SHOWN);
        format!("{}…", without(&read[..shown], &hidden))
    }

    /// The same error with a clean text.
    pub fn clean_error(&self, error: SinkError) -> SinkError {
        error.map_message(|text| self.clean(&text))
    }

    fn add_value(&mut self, value: &str) {
        // A value written with `echo` ends in a new line that no server ever sees.
        let trimmed = value.trim();
        let value = if trimmed.len() < SHORTEST_VALUE {
            value
        } else {
            trimmed
        };
        self.search_for(value, SHORTEST_VALUE);
    }

    /// Searches for a text wherever it stands, in pieces if it is long.
    fn search_for(&mut self, text: &str, shortest: usize) {
        if text.len() < shortest {
            return;
        }
        let mut rest = text;
        while rest.len() > PIECE {
            let (piece, tail) = rest.split_at(rest.floor_char_boundary(PIECE));
            self.add(piece, true);
            rest = tail;
        }
        let last = text.ceil_char_boundary(text.len().saturating_sub(PIECE));
        self.add(&text[last..], true);
    }

    fn add_name(&mut self, name: &str) {
        let name = name.trim();
        if name.len() < SHORTEST_NAME {
            return;
        }
        if name.len() > PIECE {
            self.search_for(name, SHORTEST_NAME);
        } else {
            self.add(name, false);
        }
    }

    fn add(&mut self, text: &str, is_value: bool) {
        if self.withholds {
            return;
        }
        let known = if is_value {
            &mut self.values
        } else {
            &mut self.names
        };
        if known.contains(text) {
            return;
        }
        known.insert(text.to_owned());
        self.size += text.len();
        if self.size > LARGEST {
            *self = Self {
                withholds: true,
                ..Self::default()
            };
        }
    }

    fn add_lines(&mut self, value: &str) {
        if value.trim().contains('\n') {
            for line in value.lines().filter(|line| !line.starts_with("-----")) {
                self.search_for(line.trim(), SHORTEST_LINE);
            }
        }
    }

    fn add_connection_string(&mut self, value: &str) {
        let parts = connection::parts(value);
        for password in parts.passwords {
            self.add_value(&password);
        }
        for name in parts.names {
            self.add_name(&name);
        }
    }

    /// The members of a JSON document, such as the key of a service account.
    fn add_document(&mut self, value: &str) {
        const PUBLIC: [&str; 7] = [
            "type",
            "project_id",
            "auth_uri",
            "token_uri",
            "auth_provider_x509_cert_url",
            "client_x509_cert_url",
            "universe_domain",
        ];
        let Ok(serde_json::Value::Object(members)) = serde_json::from_str(value) else {
            return;
        };
        for (key, member) in &members {
            if let Some(text) = member.as_str()
                && !PUBLIC.contains(&key.as_str())
            {
                self.add_value(text);
                self.add_lines(text);
            }
        }
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction")
            .field("values", &self.values.len())
            .field("names", &self.names.len())
            .finish_non_exhaustive()
    }
}

/// Whether a value is a list of certificates, which every server shows to everybody.
fn is_public(value: &str) -> bool {
    const BEGIN: &str = "-----BEGIN ";
    value.trim_start().starts_with(BEGIN)
        && value
            .match_indices(BEGIN)
            .all(|(at, _)| value[at + BEGIN.len()..].starts_with("CERTIFICATE-----"))
}

/// The text with each run of hidden bytes replaced. Runs begin and end between characters, since
/// what was searched for is text.
fn without(text: &str, hidden: &[bool]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut in_run = false;
    for (at, character) in text.char_indices() {
        let hide = hidden[at..at + character.len_utf8()].contains(&true);
        if hide && !in_run {
            clean.push_str(REMOVED);
        } else if !hide {
            clean.push(character);
        }
        in_run = hide;
    }
    clean
}
