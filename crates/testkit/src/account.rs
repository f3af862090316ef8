//! Which user we are, and whom we become when a server refuses to run as root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// Numeric user id.
    pub uid: u32,
    /// Numeric id of the primary group.
    pub gid: u32,
}

impl Account {
    /// The user this process runs as.
    pub fn current() -> Result<Self> {
        let uid = fs::metadata("/proc/self")
            .context("cannot read /proc/self")?
            .uid();
        Self::find(|account| account.uid == uid)?
            .with_context(|| format!("user id {uid} has no entry in /etc/passwd"))
    }

    /// A user without rights, for servers that refuse root: the first of `preferred` that
    /// exists, or `nobody`.
    pub fn unprivileged(preferred: &[&str]) -> Result<Self> {
        for name in preferred.iter().chain(&["nobody"]) {
            if let Some(account) = Self::find(|account| account.name == *name)? {
                return Ok(account);
            }
        }
        bail!("no unprivileged user found: /etc/passwd has no entry for nobody")
    }

    /// Whether this is the superuser.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Hands a file or directory over to this user.
    pub fn own(&self, path: &Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot give {} to {}", path.display(), self.name))
    }

    fn find(wanted: impl Fn(&Self) -> bool) -> Result<Option<Self>> {
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        Ok(passwd.lines().filter_map(Self::parse).find(wanted))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Self { name, uid, gid })
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn passwd_lines() {
        let parsed = Account::parse("postgres:x:101:104:PostgreSQL,,,:/var/lib/postgresql:/bin/sh");
        let expected = Account {
            name: "postgres".to_owned(),
            uid: 101,
            gid: 104,
        };
        assert_eq!(parsed, Some(expected));
        assert_eq!(Account::parse("# comment"), None);
        assert_eq!(Account::parse("half:x:1"), None);
    }

    #[test]
    fn somebody_without_rights_exists() {
        let account = Account::unprivileged(&["no-such-user-here"]).unwrap();
        assert_eq!(account.name, "nobody");
        assert!(!account.is_root());
    }
}
