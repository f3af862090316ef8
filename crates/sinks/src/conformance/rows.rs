//! Rows to deliver.

use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row, Snapshot, TargetKind};
use serde_json::{Value, json};

/// Makes rows that look like those of a cluster.
#[derive(Debug, Default)]
pub struct Rows {
    interner: Interner,
    attributes: AttributesBuffer,
}

impl Rows {
    /// Nothing made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A Deployment; the name alone decides which one.
    pub fn deployment(&mut self, name: &str, replicas: u64) -> Row {
        self.deployment_at("v1", name, replicas)
    }

    /// The same Deployment as seen through a version of its API: another identity in the
    /// inventory, the same object.
    pub fn deployment_at(&mut self, version: &str, name: &str, replicas: u64) -> Row {
        let attributes = json!({ "image": format!("registry/{name}:1"), "replicas": replicas });
        self.row("apps", version, "Deployment", "team-a", name, &attributes)
    }

    /// A ConfigMap with these attributes: an object or null.
    pub fn config_map(&mut self, name: &str, attributes: &Value) -> Row {
        self.row("", "v1", "ConfigMap", "team-a", name, attributes)
    }

    /// A Node, which has no namespace, with no attributes.
    pub fn node(&mut self, name: &str) -> Row {
        self.row("", "v1", "Node", "", name, &Value::Null)
    }

    /// `count` Deployments with these replicas.
    pub fn deployments(&mut self, count: usize, replicas: u64) -> Snapshot {
        (0..count)
            .map(|number| self.deployment(&format!("app-{number:05}"), replicas))
            .collect()
    }

    fn row(
        &mut self,
        group: &str,
        version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        attributes: &Value,
    ) -> Row {
        let target = format!("{}s", kind.to_lowercase());
        let origin = self.interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: &target,
            namespace,
            group,
            version,
            kind,
        });
        match attributes.as_object() {
            Some(object) => self.attributes.set(object),
            None => self.attributes.set_null(),
        }
        let uid = uid(kind, name);
        self.interner
            .row(&origin, name, &uid, self.attributes.view())
    }
}

/// A UUID that follows from kind and name.
fn uid(kind: &str, name: &str) -> String {
    let mut random = Random::new(0);
    for byte in kind.bytes().chain([0]).chain(name.bytes()) {
        random = Random::new(random.draw() ^ u64::from(byte));
    }
    let (a, b) = (random.draw(), random.draw());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// A row as item JSON.
pub fn item(row: &Row) -> Value {
    let mut text = String::new();
    row.write_json(&mut text);
    serde_json::from_str(&text).expect("a row is JSON")
}

/// Numbers that look random and are the same in every run (the splitmix64 sequence).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }
}
