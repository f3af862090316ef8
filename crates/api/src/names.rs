//! The forms of Kubernetes names.

/// A DNS-1123 label of at most 63 characters: the form of namespaces.
pub fn is_dns_label(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63
        && text.bytes().all(|byte| word(byte) || byte == b'-')
        && text.bytes().next().is_some_and(word)
        && text.bytes().next_back().is_some_and(word)
}

/// A DNS-1123 subdomain of at most 253 characters: the form of most object names.
pub fn is_dns_subdomain(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|part| {
            part.bytes().all(|byte| word(byte) || byte == b'-')
                && part.bytes().next().is_some_and(word)
                && part.bytes().next_back().is_some_and(word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains() {
        for (text, label, subdomain) in [
            ("team-a", true, true),
            ("a.b", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("Team", false, false),
            (" a", false, false),
            ("a..b", false, false),
        ] {
            assert_eq!(is_dns_label(text), label, "{text:?}");
            assert_eq!(is_dns_subdomain(text), subdomain, "{text:?}");
        }
        assert!(!is_dns_label(&"a".repeat(64)));
        assert!(!is_dns_subdomain(&"a".repeat(254)));
    }
}
