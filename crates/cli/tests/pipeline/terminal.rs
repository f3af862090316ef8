//! What a person sees: the program in a real terminal, typed at and looked at through tmux.

use std::{
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kollect_testkit::{Cluster, debian, names::unique};

use crate::program::{Place, repository};

/// A terminal of 100 columns. Dropping it ends everything in it.
struct Terminal {
    tmux: PathBuf,
    socket: String,
}

impl Terminal {
    fn open(place: &Place) -> Result<Self> {
        let tmux = debian::ensure("tmux", || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            debian::first_file(std::env::split_paths(&path).map(|dir| dir.join("tmux")))
        })?;
        let terminal = Self {
            tmux,
            socket: unique("kollect"),
        };
        let directory = place.path(".").display().to_string();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_kollect"));
        let programs = program
            .parent()
            .context("a directory")?
            .display()
            .to_string();
        let shell = format!(
            "env -i TERM=screen LANG=C.UTF-8 HOME='{directory}' PATH='{programs}:/usr/bin:/bin' bash --norc --noprofile"
        );
        let size = ["-x", "100", "-y", "40"];
        let session = ["-f", "/dev/null", "new-session", "-d", "-c", &directory];
        terminal.tmux(&[&session[..], &size, &[&shell]].concat())?;
        terminal.line("PS1='ready> '")?;
        terminal.sees("ready> ")?;
        Ok(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Result<String> {
        let ran = Command::new(&self.tmux)
            .args(["-L", &self.socket])
            .args(args)
            .output()?;
        ensure!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        Ok(String::from_utf8(ran.stdout)?)
    }

    fn key(&self, key: &str) -> Result<()> {
        self.tmux(&["send-keys", key]).map(drop)
    }

    fn line(&self, text: &str) -> Result<()> {
        self.tmux(&["send-keys", "-l", text])?;
        self.key("Enter")
    }

    /// What is on the screen, and above it.
    fn screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p", "-S", "-200"])
    }

    /// Waits until something is on the screen.
    fn sees(&self, text: &str) -> Result<String> {
        self.until(text, |screen| screen.contains(text))
    }

    fn until(&self, what: &str, fulfilled: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let screen = self.screen()?;
            if fulfilled(&screen) {
                return Ok(screen);
            }
            if Instant::now() > deadline {
                bail!("{what:?} is not on the screen:\n{screen}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

#[test]
fn a_person_answers_the_questions_of_init() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("terminal")?;
    let object = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"seen","namespace":"{namespace}","labels":{{"tier":"shop"}}}},"data":{{"colour":"blue"}}}}"#
    );
    cluster.apply(&object)?;
    let place = Place::new();
    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig())?;
    place.write("kubeconfig", &kubeconfig);
    let terminal = Terminal::open(&place)?;
    terminal.line("kollect init --kubeconfig kubeconfig --output-dir made")?;
    terminal.sees("Use context")?;
    terminal.key("Enter")?;
    terminal.sees("What should be collected?")?;
    terminal.line("ConfigMap (v1)")?;
    terminal.sees("From which namespaces?")?;
    terminal.line("Explicit namespace")?;
    terminal.sees("Which namespaces?")?;
    terminal.tmux(&["send-keys", "-l", &namespace])?;
    terminal.until("the one namespace", |screen| {
        screen.lines().filter(|line| line.contains("[ ]")).count() == 1
    })?;
    terminal.key("Space")?;
    terminal.sees("[x]")?;
    terminal.key("Enter")?;
    terminal.sees("Which objects?")?;
    terminal.line("No resource filter")?;
    // One question, and Enter means yes.
    terminal.sees("Look at one object to suggest attributes?")?;
    terminal.key("Enter")?;
    terminal.sees("Which one?")?;
    terminal.line("seen")?;
    let screen = terminal.sees("Which attributes?")?;
    ensure!(
        !screen.contains("blue"),
        "values of data are not shown:\n{screen}"
    );
    terminal.key("Enter")?;
    terminal.sees("Name of the profile")?;
    terminal.key("Enter")?;
    terminal.sees("Write these files?")?;
    terminal.key("Enter")?;
    let screen = terminal.sees("kubectl apply -f")?;
    ensure!(screen.contains("made/profile.yaml"), "{screen}");
    // What was written works, and a terminal is shown a table that fits.
    terminal
        .line("clear; kollect collect -f made --kubeconfig kubeconfig --output -; echo ended $?")?;
    let screen = terminal.sees("ended 0")?;
    ensure!(
        screen.contains("NAMESPACE") && screen.contains("seen"),
        "{screen}"
    );
    ensure!(
        screen.lines().all(|line| line.chars().count() <= 100),
        "{screen}"
    );
    Ok(())
}

#[test]
fn a_person_sees_progress_and_stops_it() -> Result<()> {
    let place = Place::new();
    let object = |number: usize| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d{number}","namespace":"n","annotations":{{"text":"{}"}}}},"spec":{{"replicas":1}}}}"#,
            "x".repeat(2_000)
        )
    };
    let objects: Vec<String> = (0..60_000).map(object).collect();
    let list = format!(r#"{{"kind":"List","items":[{}]}}"#, objects.join(",\n"));
    place.write("dump.json", &list);
    let shop = repository().join("examples/shop").canonicalize()?;
    let terminal = Terminal::open(&place)?;
    let shop = shop.display();
    terminal.line(&format!(
        "kollect collect -f {shop} --from dump.json --output out; echo ended $?"
    ))?;
    terminal.sees("reading dump.json")?;
    terminal.key("C-c")?;
    let screen = terminal.sees("ended 1")?;
    ensure!(screen.contains("ended 130"), "{screen}");
    ensure!(screen.contains("interrupted"), "{screen}");
    ensure!(!place.path("out").exists(), "nothing is written");
    Ok(())
}
