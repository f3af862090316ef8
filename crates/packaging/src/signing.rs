//! How a release is signed: the list of checksums, which stands for everything, with a key or with an
//! identity that the environment gives. Nothing here reads a key.
//!
//! | Variable | What signs |
//! | --- | --- |
//! | `KOLLECT_SIGNING_KEY` | `ssh-keygen -Y sign` with this file, a private key of SSH |
//! | `COSIGN_KEY` | `cosign sign-blob` with this key: a file, or the address of one in a vault |
//! | `SIGSTORE_ID_TOKEN` | `cosign sign-blob` without a key, for the identity of this token |

use std::path::Path;

/// What `ssh-keygen` binds signatures to: one made for something else does not count.
pub const NAMESPACE: &str = "kollect-release";

/// A command that signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it makes, beside the file.
    pub makes: &'static str,
}

/// The command that signs `file`, as the environment says; none if it gives nothing to sign with.
pub fn command(file: &Path, variable: impl Fn(&str) -> Option<String>) -> Option<Command> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let file = file.display().to_string();
    let bundle = format!("{file}.sigstore.json");
    let blob = |more: &[&str]| Command {
        program: "cosign",
        arguments: ["sign-blob", "--yes", "--bundle", &bundle]
            .iter()
            .chain(more)
            .chain(&[&*file])
            .map(ToString::to_string)
            .collect(),
        makes: "sigstore.json",
    };
    if let Some(key) = given("KOLLECT_SIGNING_KEY") {
        let arguments = ["-Y", "sign", "-f", &key, "-n", NAMESPACE, &file];
        return Some(Command {
            program: "ssh-keygen",
            arguments: arguments.map(str::to_owned).into(),
            makes: "sig",
        });
    }
    if let Some(key) = given("COSIGN_KEY") {
        return Some(blob(&["--key", &key]));
    }
    // Cosign reads the token from the environment itself: it must not stand in a list of processes.
    given("SIGSTORE_ID_TOKEN").map(|_| blob(&[]))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::command;

    #[test]
    fn the_environment_decides_who_signs() {
        let file = Path::new("dist/checksums.txt");
        let bundle = "cosign sign-blob --yes --bundle dist/checksums.txt.sigstore.json";
        for (given, expected) in [
            (vec![], None),
            (vec![("COSIGN_KEY", "")], None),
            (
                vec![("KOLLECT_SIGNING_KEY", "key")],
                Some("ssh-keygen -Y sign -f key -n kollect-release dist/checksums.txt".to_owned()),
            ),
            (
                vec![("COSIGN_KEY", "k")],
                Some(format!("{bundle} --key k dist/checksums.txt")),
            ),
            (
                vec![("SIGSTORE_ID_TOKEN", "secret")],
                Some(format!("{bundle} dist/checksums.txt")),
            ),
        ] {
            let variable = |name: &str| {
                let mut known = given.iter();
                known
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            let command = command(file, variable);
            let text = command.map(|c| format!("{} {}", c.program, c.arguments.join(" ")));
            assert_eq!(text, expected, "{given:?}");
        }
    }
}
