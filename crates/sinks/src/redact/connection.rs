//! The parts of a connection string.
//!
//! Reads generously: a string that no driver accepts still holds a password, and the error about
//! it is just the text that must not show it.

use percent_encoding::percent_decode_str;

/// What a connection string tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// To be hidden wherever they stand.
    pub(super) passwords: Vec<String>,
    /// Users, hosts, ports and databases, to be hidden where they stand as words.
    pub(super) names: Vec<String>,
}

/// The parts of `scheme://user:password@host:port/database?key=value` or of
/// `key=value key='value'`; nothing if the text is neither.
pub(super) fn parts(text: &str) -> Parts {
    let mut parts = Parts::default();
    let text = text.trim();
    // Several lines are a file, not a connection string.
    if text.contains('\n') {
        return parts;
    }
    match text.split_once("://") {
        Some((_, rest)) => parts.read_url(rest),
        None => parts.read_pairs(text),
    }
    parts
}

impl Parts {
    fn read_url(&mut self, rest: &str) {
        // A password may hold every separator unencoded. The last `@` before the options ends it.
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (userinfo, place) = match address.rsplit_once('@') {
            Some((userinfo, place)) => (Some(userinfo), place),
            None => (None, address),
        };
        if let Some(userinfo) = userinfo {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            self.name(user);
            self.password(password);
        }
        let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
        self.hosts(hosts);
        self.name(database.split('#').next().unwrap_or_default());
        for option in options.split(['&', '#']) {
            let (key, value) = option.split_once('=').unwrap_or_default();
            self.setting(key, value);
        }
    }

    fn read_pairs(&mut self, text: &str) {
        let mut rest = text.trim_start();
        while let Some((key, tail)) = rest.split_once('=') {
            let tail = tail.trim_start();
            let (value, after) = match tail.strip_prefix('\'') {
                Some(quoted) => quoted_value(quoted),
                None => {
                    let end = tail.find(char::is_whitespace).unwrap_or(tail.len());
                    (tail[..end].replace('\\', ""), &tail[end..])
                }
            };
            self.setting(key.trim(), &value);
            rest = after.trim_start();
        }
    }

    fn setting(&mut self, key: &str, value: &str) {
        match key.to_ascii_lowercase().as_str() {
            "password" | "sslpassword" | "passfile" => self.password(value),
            "host" | "hostaddr" => self.hosts(value),
            "user" | "dbname" | "port" | "authsource" | "replicaset" => {
                value.split(',').for_each(|name| self.name(name));
            }
            _ => {}
        }
    }

    /// `host:port,[address%zone]:port`
    fn hosts(&mut self, hosts: &str) {
        for place in hosts.split(',') {
            let (host, port) = match place.strip_prefix('[').and_then(|p| p.split_once(']')) {
                Some((host, port)) => (host, port),
                None if place.parse::<std::net::Ipv6Addr>().is_ok() => (place, ""),
                None => place.split_once(':').unwrap_or((place, "")),
            };
            self.name(host);
            if let Some((address, zone)) = host.split_once('%') {
                self.name(address);
                self.name(zone);
            }
            port.split(':').for_each(|port| self.name(port));
        }
    }

    fn name(&mut self, name: &str) {
        add(&mut self.names, name);
    }

    fn password(&mut self, password: &str) {
        add(&mut self.passwords, password);
    }
}

fn add(list: &mut Vec<String>, part: &str) {
    // An escape that is none stays as it is: what is no connection string is cleaned all the same.
    let decoded = percent_decode_str(part).decode_utf8_lossy().into_owned();
    // Whoever takes these knows what it has; looking through the list for each of thousands of
    // hosts would not end.
    if !part.is_empty() {
        list.push(part.to_owned());
    }
    if decoded != part && !decoded.is_empty() {
        list.push(decoded);
    }
}

/// The value of `'it\'s'` after the opening quote, and what follows the closing one.
fn quoted_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_are_taken_apart() {
        for (text, passwords, names) in [
            (
                "postgres://app:s%40cret@db.example.com:5433/orders?sslmode=require",
                &["s%40cret", "s@cret"][..],
                &["app", "db.example.com", "5433", "orders"][..],
            ),
            (
                "postgresql://app:p/w@d@db:5432/orders?password=other&host=h2,h3",
                &["p/w@d", "other"],
                &["app", "db", "5432", "orders", "h2", "h3"],
            ),
            (
                "postgres://u:pw@[fe80::1%eth0]:5432/db",
                &["pw"],
                &["u", "fe80::1%eth0", "fe80::1", "eth0", "5432", "db"],
            ),
            (
                "mongodb://a:b1234@one:27017,two:27018:x/admin?authSource=users",
                &["b1234"],
                &["a", "one", "27017", "two", "27018", "x", "admin", "users"],
            ),
            (
                r"host=db.example.com port = 5432 user=app password='it\'s \\x' dbname=orders sslmode=maybe",
                &[r"it's \x"],
                &["db.example.com", "5432", "app", "orders"],
            ),
            (
                "host=/var/run user=app password='open",
                &["open"],
                &["/var/run", "app"],
            ),
            (
                "postgres://a+b:p%ffq%zz%4@db/%%41",
                &["p%ffq%zz%4", "p\u{fffd}q%zz%4"],
                &["a+b", "db", "%%41", "%A"],
            ),
            ("https://s3.example.com", &[], &["s3.example.com"]),
            ("just a password", &[], &[]),
            ("line=1\npassword=x", &[], &[]),
        ] {
            let parts = parts(text);
            assert_eq!(parts.passwords, passwords, "{text}");
            assert_eq!(parts.names, names, "{text}");
        }
    }
}
