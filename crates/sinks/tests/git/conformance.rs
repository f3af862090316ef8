//! The suite of all backends, over every way to a repository.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_sinks::{
    Sink,
    conformance::{Retirement, Subject},
    layout::segment::{GREATEST_LENGTH, sanitise},
};
use kollect_testkit::{Proxy, git::SshServer};
use serde_json::{Value, json};

use crate::stage::{self, Sketch, Stage};

/// A repository and one way to it.
struct GitSubject {
    stage: Stage,
    way: Way,
    layout: Files,
}

enum Way {
    /// Through a hop that can be taken away.
    Https(Proxy),
    Ssh(Proxy, Box<SshServer>),
    Directory,
}

/// One file per row, written from changes, or one file for all, written as a whole.
#[derive(Clone, Copy, PartialEq)]
enum Files {
    PerRow,
    Document,
}

impl GitSubject {
    fn https(layout: Files) -> Self {
        let stage = Stage::start();
        let url = stage.repository.https_url().to_owned();
        let proxy = Proxy::to(("127.0.0.1", port_of(&url))).unwrap();
        Self {
            stage,
            way: Way::Https(proxy),
            layout,
        }
    }

    fn ssh() -> Self {
        let server = SshServer::start().unwrap();
        let proxy = Proxy::to(("127.0.0.1", port_of(&server.url()))).unwrap();
        Self {
            stage: Stage::start(),
            way: Way::Ssh(proxy, Box::new(server)),
            layout: Files::PerRow,
        }
    }

    fn directory() -> Self {
        Self {
            stage: Stage::start(),
            way: Way::Directory,
            layout: Files::PerRow,
        }
    }

    fn sketch(&self, cluster: &str) -> Sketch {
        let mode = match self.layout {
            // Inventories share the repository, and rows of the same name must not meet.
            Files::PerRow => json!({
                "mode": "perResource",
                "pathTemplate": "{cluster}/{namespace}/{name}/{sourceNamespace}/{kind}/{sourceName}{extension}",
            }),
            Files::Document => json!({ "mode": "document" }),
        };
        let mut sketch = self.stage.sketch(json!({
            "endpoint": self.endpoint(),
            "cluster": cluster,
            "layout": mode,
            "pathTemplate": "{cluster}/{namespace}/{name}{extension}",
            "serialization": { "format": "json" },
        }));
        if let Way::Ssh(proxy, server) = &self.way {
            let known = server.known_hosts();
            let known = known.replace(
                &format!("]:{}", port_of(&server.url())),
                &format!("]:{}", proxy.port()),
            );
            sketch.secret = vec![
                ("ssh-privatekey".into(), server.client_key().unwrap()),
                ("known_hosts".into(), known),
            ];
        }
        sketch
    }

    fn endpoint(&self) -> String {
        let repository = &self.stage.repository;
        let through = |url: String, proxy: &Proxy| {
            let port = port_of(&url);
            url.replacen(&format!(":{port}"), &format!(":{}", proxy.port()), 1)
        };
        match &self.way {
            Way::Https(proxy) => through(repository.https_url().to_owned(), proxy),
            Way::Ssh(proxy, server) => through(repository.ssh_url(server), proxy),
            Way::Directory => format!("file://{}", repository.path().display()),
        }
    }

    fn proxy(&self) -> Option<&Proxy> {
        match &self.way {
            Way::Https(proxy) | Way::Ssh(proxy, _) => Some(proxy),
            Way::Directory => None,
        }
    }
}

fn port_of(url: &str) -> u16 {
    let (_, rest) = url.split_once("127.0.0.1:").unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

#[async_trait]
impl Subject for GitSubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.stage.build(&self.sketch(cluster)).unwrap()
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let mut sketch = self.sketch("prod-west");
        match &self.way {
            Way::Directory => return None,
            Way::Https(_) => sketch.secret[1].1 = "hunter2-is-wrong".into(),
            Way::Ssh(..) => sketch.secret[0].1 = other_key(),
        }
        Some(self.stage.build(&sketch).unwrap())
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let files = stage::files(&self.stage.repository, "main");
        let namespace = sanitise(inventory.namespace(), GREATEST_LENGTH);
        let place = format!("{cluster}/{namespace}/{}", inventory.name);
        match self.layout {
            Files::PerRow => files
                .iter()
                .filter(|(path, _)| path.starts_with(&format!("{place}/")))
                .map(|(_, content)| serde_json::from_str(content).unwrap())
                .collect(),
            Files::Document => files
                .get(&format!("{place}.json"))
                .map(|content| serde_json::from_str::<Value>(content).unwrap())
                .and_then(|document| document["items"].as_array().cloned())
                .unwrap_or_default(),
        }
    }

    async fn stop(&self) {
        if let Some(proxy) = self.proxy() {
            proxy.refuse();
        }
    }

    async fn start(&self) {
        if let Some(proxy) = self.proxy() {
            proxy.accept().unwrap();
        }
    }

    async fn stall(&self, on: bool) -> bool {
        match self.proxy() {
            Some(proxy) => {
                proxy.stall(on);
                true
            }
            None => false,
        }
    }

    async fn lose(&self) -> bool {
        let deleted = self
            .stage
            .repository
            .git(&["update-ref", "-d", "refs/heads/main"]);
        deleted.is_ok()
    }

    async fn mark(&self) -> Option<String> {
        Some(self.stage.tip())
    }

    fn retirement(&self) -> Retirement {
        Retirement::Keeps
    }

    fn secrets(&self) -> Vec<String> {
        vec![
            self.stage.server.password().to_owned(),
            "hunter2".to_owned(),
        ]
    }
}

/// A key that nobody has heard of.
fn other_key() -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&file)
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::read_to_string(file).unwrap()
}

mod https_per_row {
    kollect_sinks::conformance_tests!(super::GitSubject::https(super::Files::PerRow));
}

mod https_document {
    kollect_sinks::conformance_tests!(super::GitSubject::https(super::Files::Document));
}

mod ssh {
    kollect_sinks::conformance_tests!(super::GitSubject::ssh());
}

/// There is no server that could be gone or late, so those cases are left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory() {
    let about_servers = [
        "a_server_that_is_gone_comes_back",
        "a_server_may_come_late",
        "texts_contain_no_secrets",
    ];
    for (name, case) in kollect_sinks::conformance::cases() {
        if !about_servers.contains(&name) {
            case(&GitSubject::directory()).await;
        }
    }
}
