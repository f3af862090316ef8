//! Against a real API server: the same rows as from a dump, and what happens without rights.

use anyhow::Result;
use kollect_testkit::{
    Cluster,
    cluster::User,
    names::unique,
    rbac::{Rule, Scope},
};
use serde_json::{Value, json};

use crate::program::{Place, Ran};

/// One time for all runs, so that they can be compared byte for byte.
const TIME: (&str, &str) = ("SOURCE_DATE_EPOCH", "1767225600");

/// A place with a kubeconfig for `user` under the context `dev`, and objects of its own.
struct Stage {
    cluster: &'static Cluster,
    place: Place,
    /// The label that only the namespaces of this stage have.
    label: String,
    namespaces: Vec<String>,
}

impl Stage {
    /// Namespaces with one Deployment and one ConfigMap each.
    fn new(namespaces: usize) -> Result<Self> {
        let cluster = Cluster::shared()?;
        let mut stage = Self {
            cluster,
            place: Place::new(),
            label: unique("stage"),
            namespaces: Vec::new(),
        };
        for number in 0..namespaces {
            let namespace = cluster.create_namespace(&format!("pipeline-{number}"))?;
            cluster.kubectl(&[
                "label",
                "namespace",
                &namespace,
                &format!("stage={}", stage.label),
            ])?;
            stage.apply(&namespace, number)?;
            stage.namespaces.push(namespace);
        }
        stage.kubeconfig(&[("dev", cluster.admin())]);
        Ok(stage)
    }

    fn apply(&self, namespace: &str, number: usize) -> Result<()> {
        let metadata = json!({"name": format!("app-{number}"), "namespace": namespace, "labels": {"app.kubernetes.io/name": "shop"}});
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {
                    "replicas": number + 1,
                    "selector": {"matchLabels": {"app": "x"}},
                    "template": {
                        "metadata": {"labels": {"app": "x"}},
                        "spec": {"containers": [{"name": "c", "image": "nginx:1.25"}]},
                    },
                },
            },
            {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
                "data": {"password": "hunter2", "text": "multi\nline: ü", "yes": "no", "number": "1"},
            },
        ]});
        self.cluster.apply(&objects.to_string())?;
        Ok(())
    }

    fn kubeconfig(&self, users: &[(&str, &User)]) {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(self.cluster.ca_pem());
        let contexts: Vec<Value> = users
            .iter()
            .map(|(name, _)| json!({"name": name, "context": {"cluster": "c", "user": name}}))
            .collect();
        let users: Vec<Value> = users
            .iter()
            .map(|(name, user)| json!({"name": name, "user": {"token": user.token}}))
            .collect();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": contexts[0]["name"],
            "clusters": [{"name": "c", "cluster": {
                "server": self.cluster.url(), "certificate-authority-data": authority,
            }}],
            "users": users, "contexts": contexts,
        });
        self.place.write("kubeconfig", &config.to_string());
    }

    /// Targets for Deployments (whole objects and attributes), ConfigMaps and namespaces.
    fn configure(&self, extra: &Value) {
        let profile = |name: &str, gvk: Value, spec: Value| {
            let mut profile = json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
                "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            });
            profile["spec"]["targetGVK"] = gvk;
            profile
        };
        let target = |name: &str, narrow: &Value| {
            let mut spec = narrow.clone();
            spec["profileRef"] = name.into();
            // Controllers put objects of their own into every namespace.
            spec["labelSelector"] = json!({"matchLabels": {"app.kubernetes.io/name": "shop"}});
            json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
                "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            })
        };
        let deployments = json!({"attributes": [
            {"name": "image", "path": "$.spec.template.spec.containers[0].image"},
            {"name": "replicas", "path": "cel:object.spec.replicas"},
            {"name": "created", "path": "$.metadata.creationTimestamp"},
        ]});
        let objects = json!([
            profile(
                "deployments",
                json!({"group": "apps", "version": "v1", "kind": "Deployment"}),
                deployments
            ),
            target("deployments", extra),
            profile(
                "maps",
                json!({"version": "v1", "kind": "ConfigMap"}),
                json!({"export": {"mode": "Resource", "include": "All"}})
            ),
            target("maps", extra),
        ]);
        self.place.write(
            "config/config.yaml",
            &json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
        );
    }

    fn selector(&self) -> Value {
        json!({"namespaceSelector": {"matchLabels": {"stage": self.label}}})
    }

    fn collect(&self, args: &[&str]) -> Ran {
        let args = [&["collect", "--config", "config"], args].concat();
        self.place.run(&args, &[TIME], "")
    }

    fn live(&self, args: &[&str]) -> Ran {
        self.collect(&[&["--kubeconfig", "kubeconfig"], args].concat())
    }

    /// A user who may list Deployments and ConfigMaps in one namespace, and nothing else.
    fn user_of(&self, namespace: &str) -> Result<User> {
        let user = self
            .cluster
            .create_service_account(namespace, &unique("ci"))?;
        let rules = [
            Rule {
                group: "apps",
                resources: &["deployments"],
                verbs: &["list"],
            },
            Rule {
                group: "",
                resources: &["configmaps"],
                verbs: &["list"],
            },
        ];
        self.cluster
            .grant(Scope::Namespace(namespace), &user, &rules)?;
        Ok(user)
    }
}

#[test]
fn a_cluster_and_its_dump_give_the_same_bytes() -> Result<()> {
    let stage = Stage::new(2)?;
    stage.configure(&stage.selector());
    let kinds = "namespaces,deployments,configmaps";
    let dump = |form: &str| stage.cluster.kubectl(&["get", kinds, "-A", "-o", form]);
    stage.place.write("dump.json", &dump("json")?);
    stage.place.write("dump.yaml", &dump("yaml")?);

    let expected = stage.live(&["--cluster", "shop", "--output", "-"]);
    assert_eq!(expected.code, 0, "{expected:#?}");
    assert_eq!(expected.stdout.lines().count(), 4, "{expected:#?}");
    assert!(expected.stdout.contains("nginx:1.25"));
    assert!(!expected.stdout.contains("hunter2"), "redacted");
    for file in ["dump.json", "dump.yaml"] {
        let offline = stage.collect(&["--from", file, "--cluster", "shop", "--output", "-"]);
        assert_eq!(offline.code, 0, "{offline:#?}");
        assert_eq!(offline.stdout, expected.stdout, "{file}");
    }
    for (format, extension) in [("yaml", "yaml"), ("json", "json"), ("ndjson", "ndjson")] {
        let to = |root| ["--cluster", "shop", "--format", format, "--output", root];
        assert_eq!(stage.live(&to("live")).code, 0);
        let from = [&["--from", "dump.json"], &to("offline")[..]].concat();
        assert_eq!(stage.collect(&from).code, 0);
        for name in ["deployments", "maps"] {
            let path = |root| format!("{root}/inventory/shop/{name}.{extension}");
            let live = stage.place.read(&path("live"));
            assert!(
                live.as_ref().is_some_and(|text| text.contains("app-1")),
                "{live:?}"
            );
            assert_eq!(
                live,
                stage.place.read(&path("offline")),
                "{name}.{extension}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_forbidden_namespace_is_left_out_and_told() -> Result<()> {
    let stage = Stage::new(2)?;
    let [mine, other] = [&stage.namespaces[0], &stage.namespaces[1]];
    stage.configure(&json!({"includedNamespaces": [mine, other]}));
    stage.kubeconfig(&[("ci", &stage.user_of(mine)?)]);
    let ran = stage.live(&["--output", "-"]);
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:#?}");
    assert!(
        ran.stderr.contains(r#""msg":"target skipped""#)
            && ran.stderr.contains(r#""reason":"forbidden""#)
    );
    assert!(ran.stderr.contains(&format!(
        "namespace {other} may not be listed; grant list there"
    )));
    // With a dry run the same is planned, and nothing is there afterwards.
    let ran = stage.live(&["--output", "out", "--dry-run"]);
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(!stage.place.path("out").exists());
    Ok(())
}

#[test]
fn whoever_may_read_nothing_overwrites_nothing() -> Result<()> {
    let stage = Stage::new(2)?;
    let [mine, other] = [&stage.namespaces[0], &stage.namespaces[1]];
    stage.kubeconfig(&[("ci", &stage.user_of(mine)?)]);
    let file = "out/inventory/shop/deployments.yaml";
    stage.place.write(file, "what was there");
    let untouched = |ran: &Ran| {
        assert_eq!(ran.code, 2, "{ran:#?}");
        assert_eq!(
            stage.place.read(file).as_deref(),
            Some("what was there"),
            "{ran:#?}"
        );
    };

    stage.configure(&json!({"includedNamespaces": [other]}));
    let ran = stage.live(&["--output", "out"]);
    untouched(&ran);
    assert!(ran.stderr.contains("grant list there"), "{ran:#?}");

    // Without the right to list namespaces, nobody knows what "all" or a selector means.
    stage.configure(&stage.selector());
    let ran = stage.live(&["--output", "out"]);
    untouched(&ran);
    assert!(
        ran.stderr.contains(
            "resolve namespaces: namespaces may not be listed; name them in includedNamespaces or"
        ),
        "{ran:#?}"
    );

    // A token that nobody knows is no empty cluster.
    let stranger = User {
        name: "nobody".to_owned(),
        token: "wrong".to_owned(),
    };
    stage.kubeconfig(&[("ci", &stranger)]);
    untouched(&stage.live(&["--output", "out"]));

    // Naming the namespace is all that is needed.
    stage.configure(&json!({}));
    stage.kubeconfig(&[("ci", &stage.user_of(mine)?)]);
    let ran = stage.live(&["--output", "out", "--namespace", mine]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(stage.place.read(file).unwrap().contains("nginx:1.25"));
    Ok(())
}

#[test]
fn several_contexts_do_not_overwrite_each_other() -> Result<()> {
    let stage = Stage::new(1)?;
    stage.configure(&stage.selector());
    let admin = stage.cluster.admin();
    stage.kubeconfig(&[
        ("west", admin),
        ("east", admin),
        ("shut", stage.cluster.restricted()),
    ]);
    let ran = stage.live(&["--context", "*st,zz*", "--output", "out"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.stderr
            .contains(r#"warning: --context "zz*" matched no contexts in kubeconfig"#)
    );
    for context in ["east", "west"] {
        let file = format!("out/clusters/{context}/inventory/shop/deployments.yaml");
        assert!(
            stage
                .place
                .read(&file)
                .is_some_and(|text| text.contains("nginx:1.25")),
            "{ran:#?}"
        );
    }
    // One that fails does not hold up the others. E19: something was written, so this is no 2.
    let ran = stage.live(&["--context", "shut,west", "--output", "-"]);
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(
        ran.stdout.contains(r#""cluster":"west""#) && !ran.stdout.contains(r#""cluster":"shut""#),
        "{ran:#?}"
    );
    let ran = stage.live(&["--context", "shut", "--output", "-"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    // One file for all: without one of them it would lose rows.
    stage.place.write("all.csv", "what was there");
    let ran = stage.live(&["--context", "shut,west", "--output", "all.csv"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert_eq!(
        stage.place.read("all.csv").as_deref(),
        Some("what was there")
    );
    let ran = stage.live(&["--context", "east,west", "--cluster", "x", "--output", "-"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    Ok(())
}

#[test]
fn e9_a_slow_context_holds_back_nobody() -> Result<()> {
    let stage = Stage::new(1)?;
    stage.configure(&stage.selector());
    // Takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let text = stage.place.read("kubeconfig").unwrap_or_default();
    let mut config: Value = serde_json::from_str(&text)?;
    let list = |config: &mut Value, name: &str, one: Value| {
        if let Some(all) = config[name].as_array_mut() {
            all.push(one);
        }
    };
    let server = format!("https://{}", silent.local_addr()?);
    list(
        &mut config,
        "clusters",
        json!({"name": "s", "cluster": {"server": server}}),
    );
    list(
        &mut config,
        "contexts",
        json!({"name": "a-slow", "context": {"cluster": "s", "user": "dev"}}),
    );
    stage.place.write("kubeconfig", &config.to_string());
    let args = [
        "collect",
        "--config",
        "config",
        "--kubeconfig",
        "kubeconfig",
        "--context",
        "a-slow,dev",
        "--output",
        "out",
        "--timeout",
        "600s",
    ];
    let mut child = stage.place.start(&args);
    let file = "out/clusters/dev/inventory/shop/deployments.yaml";
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while stage.place.read(file).is_none() {
        assert!(std::time::Instant::now() < deadline, "nothing was written");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(
        child.try_wait()?.is_none(),
        "the slow one is still waited for"
    );
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[test]
fn a_kind_without_manifests() -> Result<()> {
    let stage = Stage::new(2)?;
    let [one, other] = [&stage.namespaces[0], &stage.namespaces[1]];
    let collect = |args: &[&str]| {
        let fixed = [
            "collect",
            "--kubeconfig",
            "kubeconfig",
            "-o",
            "csv",
            "--columns",
            "namespace,name,image",
        ];
        let attribute = ["-a", "image=$.spec.template.spec.containers[*].image"];
        stage
            .place
            .run(&[&fixed, args, &attribute].concat(), &[], "")
    };
    let ran = collect(&["deploy", "-n", one]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let expected = format!("namespace,name,image\n{one},app-0,\"[\"\"nginx:1.25\"\"]\"\n");
    assert_eq!(ran.stdout, expected);
    let ran = collect(&[
        "deployments.apps",
        "-A",
        "-l",
        "app.kubernetes.io/name=shop",
    ]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.stdout.contains(&**one) && ran.stdout.contains(&**other),
        "{ran:#?}"
    );
    // As for kubectl, the namespace of the context is meant where none is given.
    let ran = collect(&["deployments"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 1), "{ran:#?}");
    Ok(())
}
