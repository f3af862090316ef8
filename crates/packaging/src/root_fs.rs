//! The files of the image: the program, the shared libraries that it needs, certificate
//! authorities, one user, and a place for temporary files. No shell, no package manager, nothing
//! that writes.
//!
//! The program is linked with glibc, and its libraries come along. A static program would spare three
//! megabytes and bring a resolver of its own: names of sinks would be looked up by other rules than
//! everywhere else on the platform, and glibc's own resolver does not work in static programs without
//! the very files that are left out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::tar::Tree;

/// Who runs in the container: nobody that the host knows.
pub const USER: &str = "65532:65532";
/// The program.
pub const PROGRAM: &str = "/kollect";
/// The largest program that is released, in bytes.
pub const LARGEST: usize = 60 * 1024 * 1024;

/// What the image is made from.
#[derive(Debug, Clone)]
pub struct Ingredients {
    /// The program, stripped.
    pub program: PathBuf,
    /// Certificate authorities in PEM.
    pub authorities: PathBuf,
    /// Texts that go with what is passed on: path in the image and file.
    pub licences: Vec<(String, PathBuf)>,
}

impl Ingredients {
    /// This program, with what a Debian machine has beside it. `root` is the repository.
    pub fn of(program: &Path, root: &Path) -> Self {
        let ours = ["LICENSE-APACHE", "LICENSE-MIT"]
            .map(|name| (format!("usr/share/doc/kollect/{name}"), root.join(name)));
        let theirs = ["libc6", "libgcc-s1", "zlib1g", "ca-certificates"].map(|package| {
            let path = format!("usr/share/doc/{package}/copyright");
            let file = Path::new("/").join(&path);
            (path, file)
        });
        Self {
            program: program.to_owned(),
            authorities: PathBuf::from("/etc/ssl/certs/ca-certificates.crt"),
            licences: ours.into_iter().chain(theirs).collect(),
        }
    }
}

/// The files of the image.
pub fn assemble(ingredients: &Ingredients) -> Result<Tree> {
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut tree = Tree::default();
    tree.file(PROGRAM, 0o755, read(&ingredients.program)?)?;
    for library in libraries(&ingredients.program)? {
        let path = library.to_str().context("a library with a strange name")?;
        tree.file(path, 0o755, read(&library)?)?;
    }
    tree.file(
        "etc/ssl/certs/ca-certificates.crt",
        0o644,
        read(&ingredients.authorities)?,
    )?;
    let users =
        "root:x:0:0:root:/:/sbin/nologin\nkollect:x:65532:65532:kollect:/tmp:/sbin/nologin\n";
    tree.file("etc/passwd", 0o644, users)?;
    tree.file("etc/group", 0o644, "root:x:0:\nkollect:x:65532:\n")?;
    tree.file("etc/nsswitch.conf", 0o644, "hosts: files dns\n")?;
    tree.directory("tmp", 0o1777)?;
    for (path, file) in &ingredients.licences {
        // Which packages there are differs between machines; what is there goes along.
        if file.is_file() {
            tree.file(path, 0o644, read(file)?)?;
        }
    }
    Ok(tree)
}

/// The shared libraries of a program, and what loads them; none for a static one.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot run ldd, which says what a program needs")?;
    let (said, complaint) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if said.contains("statically linked") || complaint.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    ensure!(output.status.success(), "ldd failed: {}", complaint.trim());
    needed(&said)
}

/// The files that ldd names.
fn needed(said: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for line in said.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("linux-vdso") || line.starts_with("linux-gate") {
            // Of the kernel.
            continue;
        }
        let place = match line.split_once("=>") {
            Some((name, place)) => {
                let place = place.trim();
                if place.starts_with("not found") {
                    bail!("{} is not on this machine", name.trim());
                }
                place
            }
            None => line,
        };
        let path = place.split_whitespace().next().unwrap_or_default();
        ensure!(path.starts_with('/'), "ldd says {line:?}, which is no file");
        files.push(PathBuf::from(path));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::needed;

    #[test]
    fn what_a_program_needs_is_read_from_ldd() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f81)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f7c)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f81)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/x86_64-linux-gnu/libz.so.1",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(needed(said).unwrap(), expected.map(PathBuf::from));
        let missing = needed("\tlibodd.so.1 => not found\n").unwrap_err();
        assert!(missing.to_string().contains("libodd.so.1"), "{missing}");
        assert!(needed("what?\n").is_err());
    }
}
