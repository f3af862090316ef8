//! Secret values, in types that cannot be printed.
//!
//! Nothing here implements `Display` or `Serialize`, and `Debug` tells which keys exist, never
//! what they hold. Whoever needs a value has to write `expose`, which is easy to search for.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// What `Debug` prints in place of a value.
const HIDDEN: &str = "[secret]";

/// A secret text: a password, a token, a connection string.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretText(Arc<str>);

impl SecretText {
    /// The value itself, for the one place that hands it to a server.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing but blanks.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// The value without blanks around it.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        Self(self.0.trim().into())
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// One value of a Secret, which may be binary.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretBytes(Arc<[u8]>);

impl SecretBytes {
    /// The value itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text, if it is UTF-8.
    pub fn text(&self) -> Option<SecretText> {
        std::str::from_utf8(&self.0).ok().map(SecretText::from)
    }
}

impl From<Vec<u8>> for SecretBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// The data of one Kubernetes Secret.
///
/// Two of them compare equal exactly if a sink built from one works with the other, which is how a
/// rotated Secret is noticed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretData(BTreeMap<String, SecretBytes>);

impl SecretData {
    /// The value under a key, verbatim.
    pub fn get(&self, key: &str) -> Option<&SecretBytes> {
        self.0.get(key)
    }

    /// The value under a key, verbatim, if it is text.
    pub fn text(&self, key: &str) -> Option<SecretText> {
        self.get(key)?.text()
    }

    /// The first value of these keys that holds more than blanks, without blanks around it.
    pub fn first_text(&self, keys: &[&str]) -> Option<SecretText> {
        keys.iter()
            .filter_map(|key| self.text(key))
            .find(|text| !text.is_blank())
            .map(|text| text.trimmed())
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretBytes)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl From<BTreeMap<String, Vec<u8>>> for SecretData {
    fn from(data: BTreeMap<String, Vec<u8>>) -> Self {
        Self(
            data.into_iter()
                .map(|(key, value)| (key, value.into()))
                .collect(),
        )
    }
}

impl<K: Into<String>, V: Into<Vec<u8>>> FromIterator<(K, V)> for SecretData {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value.into().into()))
                .collect(),
        )
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> SecretData {
        [
            ("dsn", &b"  \n"[..]),
            ("url", b" postgres://u:p@h/d\n"),
            ("token", b"  t  "),
            ("binary", b"\xff\xfe"),
        ]
        .into_iter()
        .collect()
    }

    #[test]
    fn debug_shows_keys_only() {
        assert_eq!(
            format!("{:?}", data()),
            "{\"binary\": [secret], \"dsn\": [secret], \"token\": [secret], \"url\": [secret]}"
        );
        let text = data().text("url");
        assert_eq!(format!("{text:?}"), "Some([secret])");
    }

    /// S11 and S12: texts are verbatim, the first usable one of several keys is trimmed.
    #[test]
    fn values_are_verbatim_unless_the_first_of_several_is_asked_for() {
        let data = data();
        assert_eq!(data.text("token").unwrap().expose(), "  t  ");
        let first = data.first_text(&["dsn", "url"]).unwrap();
        assert_eq!(first.expose(), "postgres://u:p@h/d");
        assert_eq!(data.first_text(&["dsn", "absent", "binary"]), None);
        assert_eq!(data.get("binary").unwrap().expose(), b"\xff\xfe");
        assert_eq!(data.text("binary"), None);
    }
}
