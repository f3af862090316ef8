//! The image and the release, made from the built program: an independent reader unpacks the image,
//! the program runs in it with nothing else around, and everything is the same when it is made again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context as _, Result, anyhow, ensure};
use kollect_api::crd;
use kollect_packaging::{
    Moment,
    oci::{self, Description},
    release::{self, CHECKSUMS, Parts},
    root_fs::{self, Ingredients, LARGEST},
    signing,
    tar::Entry,
};
use kollect_testkit::{
    Cluster, RunDir,
    account::Account,
    debian, http, ports,
    process::{Program, START_LIMIT},
    python,
};
use serde_json::{Value, json};

const CONTAINERFILE: &str = include_str!("../../../../Containerfile");

/// The repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The built program without what only a debugger reads.
fn program() -> Result<&'static Path> {
    static STRIPPED: LazyLock<Result<(RunDir, PathBuf), String>> = LazyLock::new(|| {
        let strip = || -> Result<(RunDir, PathBuf)> {
            let run = RunDir::new("image")?;
            let stripped = run.join("kollect");
            execute(
                Command::new("strip")
                    .args(["--strip-all", "-o"])
                    .arg(&stripped)
                    .arg(env!("CARGO_BIN_EXE_kollect")),
            )?;
            Ok((run, stripped))
        };
        strip().map_err(|error| format!("{error:#}"))
    });
    let (_, path) = STRIPPED.as_ref().map_err(|error| anyhow!("{error}"))?;
    Ok(path)
}

fn description() -> Description {
    Description {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: "0123456789abcdef".to_owned(),
        architecture: "amd64".to_owned(),
        moment: Moment(1_700_000_000),
    }
}

fn execute(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Unpacks the image with a reader that we did not write. Returns the bundle: what a container engine
/// would start from.
fn unpacked(run: &RunDir) -> Result<PathBuf> {
    let files = root_fs::assemble(&Ingredients::of(program()?, &repository()))?;
    let archive = run.join("image.tar");
    fs::write(&archive, oci::archive(&files, &description())?)?;
    let layout = run.join("layout");
    fs::create_dir(&layout)?;
    execute(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&layout),
    )?;
    fs::remove_file(&archive)?;
    let umoci = debian::unpacked("umoci")?.join("usr/bin/umoci");
    let bundle = run.join("bundle");
    let mut unpack = Command::new(umoci);
    unpack.arg("unpack");
    if !Account::current()?.is_root() {
        unpack.arg("--rootless");
    }
    let tag = format!("{}:v{}", layout.display(), env!("CARGO_PKG_VERSION"));
    execute(unpack.args(["--image", &tag]).arg(&bundle))?;
    Ok(bundle)
}

/// A command inside of the image: its files are all there is, and its user is nobody.
fn inside(root: &Path, arguments: &[&str]) -> Result<Program> {
    let program = if Account::current()?.is_root() {
        Program::new("kollect", "chroot").arg(format!("--userspec={}", root_fs::USER))
    } else {
        // Whoever is not root is in a user namespace of their own.
        Program::new("kollect", "unshare").args_of(&["--map-root-user", "chroot"])
    };
    Ok(program.arg(root).arg(root_fs::PROGRAM).args_of(arguments))
}

#[test]
fn the_program_runs_in_its_image_with_nothing_else_around() -> Result<()> {
    let run = RunDir::new("image")?;
    let bundle = unpacked(&run)?;
    let root = bundle.join("rootfs");

    // What an engine is told.
    let config: Value = serde_json::from_reader(File::open(bundle.join("config.json"))?)?;
    let process = &config["process"];
    ensure!(
        process["args"] == json!(["/kollect", "operator"]),
        "{process}"
    );
    if Account::current()?.is_root() {
        ensure!(
            process["user"]["uid"] == 65532 && process["user"]["gid"] == 65532,
            "{process}"
        );
    }
    let environment = process["env"].as_array().context("an environment")?;
    let authorities = json!("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt");
    ensure!(environment.contains(&authorities), "{environment:?}");

    // Commands.
    let version = inside(&root, &["version"])?.run()?;
    ensure!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let crds = inside(&root, &["crds"])?.run()?;
    ensure!(crds.matches("kind: CustomResourceDefinition").count() == crd::all_yaml().len());

    // The operator, which looks names up, speaks TLS and serves probes.
    let cluster = Cluster::shared()?;
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
    let namespace = cluster.create_namespace("image")?;
    let kubeconfig = cluster
        .kubeconfig_of(cluster.admin())
        .replace("https://127.0.0.1:", "https://localhost:");
    fs::write(root.join("tmp/kubeconfig"), kubeconfig)?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    let port = ports::free()?;
    let mut operator = inside(
        &root,
        &[
            "operator",
            "--kubeconfig=/tmp/kubeconfig",
            "--tenant-mode",
            &format!("--watch-namespaces={namespace}"),
            &format!("--health-probe-bind-address=127.0.0.1:{port}"),
        ],
    )?
    .spawn(run.path())?;
    let probes = http::Client::plain(port);
    operator.wait_ready(START_LIMIT, || {
        let answer = probes.request("GET", "/readyz", None)?;
        ensure!(
            answer.is_success(),
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        Ok(())
    })
}

#[test]
fn the_image_holds_what_the_program_needs_and_no_shell() -> Result<()> {
    let files = root_fs::assemble(&Ingredients::of(program()?, &repository()))?;
    let (mut libraries, mut others) = (0, Vec::new());
    for (path, entry) in files.entries() {
        match entry {
            Entry::Directory(mode) => {
                let expected = if path == "tmp" { 0o1777 } else { 0o755 };
                ensure!(*mode == expected, "{path} has mode {mode:o}");
            }
            Entry::File(..) if path.contains(".so.") => libraries += 1,
            Entry::File(..) if path.starts_with("usr/share/doc/") => {}
            Entry::File(..) => others.push(path),
        }
    }
    ensure!(libraries > 0);
    let expected = [
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "kollect",
    ];
    ensure!(others == expected, "{others:?}");
    // The file for container engines says the same.
    for line in [
        "USER 65532:65532",
        "ENTRYPOINT [\"/kollect\"]",
        "CMD [\"operator\"]",
        "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt HOME=/tmp",
    ] {
        ensure!(CONTAINERFILE.lines().any(|known| known == line), "{line}");
    }
    for (path, entry) in files.entries() {
        if let Entry::File(_, content) = entry
            && ["etc/passwd", "etc/group", "etc/nsswitch.conf"].contains(&path)
        {
            let text = String::from_utf8_lossy(content).replace('\n', "\\n");
            ensure!(CONTAINERFILE.contains(&*text), "{path} differs: {text}");
        }
    }
    Ok(())
}

/// What cargo says of all packages.
fn metadata() -> Result<Value> {
    let text = execute(
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--offline"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(repository()),
    )?;
    Ok(serde_json::from_str(&text)?)
}

const VALIDATE: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(str(error) if error else 0)
";

#[test]
fn a_release_is_complete_signed_and_the_same_when_it_is_made_again() -> Result<()> {
    let metadata = metadata()?;
    let mut parts = Parts {
        description: description(),
        // A small one: that ours runs from its image is another test.
        ingredients: Ingredients::of(Path::new("/bin/true"), &repository()),
        metadata: &metadata,
        root: repository(),
        largest: LARGEST,
    };
    let files = release::files(&parts)?;
    ensure!(
        files == release::files(&parts)?,
        "two releases of the same differ"
    );
    parts.largest = 1_000;
    let refused = release::files(&parts)
        .err()
        .context("a program that is too large")?;
    ensure!(refused.to_string().contains("stripped"), "{refused}");

    let run = RunDir::new("release")?;
    for (name, content) in &files {
        fs::write(run.join(name), content)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    for name in [
        &*format!("kollect-v{version}-linux-amd64.tar.gz"),
        &format!("kollect-v{version}-linux-amd64.oci.tar"),
        &format!("kollect-v{version}.cdx.json"),
        "install-crds.yaml",
        CHECKSUMS,
    ] {
        ensure!(files.contains_key(name), "{name} is missing");
    }
    execute(
        Command::new("sha256sum")
            .args(["--check", "--strict", CHECKSUMS])
            .current_dir(run.path()),
    )?;
    let crds = String::from_utf8_lossy(&files["install-crds.yaml"]);
    ensure!(crds.matches("\nkind: CustomResourceDefinition\n").count() == crd::all_yaml().len());

    // The list of components, by those who define the format.
    let bom = run.join(&format!("kollect-v{version}.cdx.json"));
    let python = python::environment(&["cyclonedx-python-lib[json-validation]==11.12.0"])?;
    execute(Command::new(python).args(["-c", VALIDATE]).arg(&bom))?;
    let bom: Value = serde_json::from_reader(File::open(bom)?)?;
    let names: Vec<&str> = bom["components"]
        .as_array()
        .context("components")?
        .iter()
        .filter_map(|component| component["name"].as_str())
        .collect();
    for linked in ["kollect-api", "tokio", "rustls"] {
        ensure!(names.contains(&linked), "{linked} is not listed");
    }
    ensure!(
        !names.contains(&"kollect-testkit"),
        "tests are no part of the program"
    );

    signs(&run)
}

/// Signs the checksums with a key and has somebody else look at it.
fn signs(run: &RunDir) -> Result<()> {
    debian::ensure("openssh-client", || {
        debian::first_file(["/usr/bin/ssh-keygen".into()])
    })?;
    let key = run.join("key");
    execute(
        Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key),
    )?;
    let checksums = run.join(CHECKSUMS);
    let given = key.display().to_string();
    let sign = signing::command(&checksums, |name| {
        (name == "KOLLECT_SIGNING_KEY").then(|| given.clone())
    })
    .context("a key is given")?;
    execute(Command::new(sign.program).args(&sign.arguments))?;
    let public = fs::read_to_string(run.join("key.pub"))?;
    fs::write(run.join("allowed"), format!("release {public}"))?;
    let verify = |signed: &Path| {
        Command::new("ssh-keygen")
            .args([
                "-Y",
                "verify",
                "-I",
                "release",
                "-n",
                signing::NAMESPACE,
                "-f",
            ])
            .arg(run.join("allowed"))
            .arg("-s")
            .arg(run.join(&format!("{CHECKSUMS}.{}", sign.makes)))
            .stdin(File::open(signed)?)
            .output()
            .context("cannot run ssh-keygen")
    };
    ensure!(
        verify(&checksums)?.status.success(),
        "the signature does not hold"
    );
    ensure!(!verify(&run.join("install-crds.yaml"))?.status.success());
    Ok(())
}
