//! Clusters: what is asked once instead of watched.

mod listing;
mod namespaces;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, stream};
use kollect_api::GroupVersionKind;
use kollect_collect::{
    gather::Gathered,
    plan::{KindFact, Plan, TargetKey, World},
};
use kollect_watch::{
    ApiServer,
    access::{Permission, Review, Reviewer, Verb},
    discovery::Discovery,
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use self::listing::Listing;
use super::{
    Origin, contexts,
    outcome::{self, Unlisted},
    report::{Level, Report},
    source::{Looking, Seen},
    world::{self, Oracle},
};

/// The clusters behind some contexts of a kubeconfig.
pub(crate) struct Clusters {
    kubeconfig: Kubeconfig,
    names: Vec<String>,
    concurrency: usize,
    timeout: Duration,
}

impl Clusters {
    /// Reads the kubeconfig and chooses contexts. Asks no cluster.
    pub(super) fn open(options: &Origin, report: &Report) -> Result<Self> {
        let kubeconfig = contexts::read_kubeconfig(options.kubeconfig.as_deref())?;
        let known = kubeconfig.contexts.iter();
        let known: Vec<String> = known.map(|context| context.name.clone()).collect();
        let current = kubeconfig.current_context.as_deref();
        let warn = |warning| report.say(&format!("warning: {warning}"));
        let names = contexts::select(&options.context, &known, current, warn)?;
        Ok(Self {
            kubeconfig,
            names,
            concurrency: usize::from(options.concurrency),
            timeout: options.timeout,
        })
    }

    /// The names of the contexts, sorted.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The namespace that a context works in.
    pub(crate) fn namespace_of(&self, context: &str) -> String {
        let all = self.kubeconfig.contexts.iter();
        let mut named = all.filter(|one| one.name == context);
        let own = named.find_map(|one| one.context.as_ref()?.namespace.clone());
        own.unwrap_or_else(|| "default".to_owned())
    }

    /// Looks at one cluster. An error means that it cannot be used at all.
    pub(crate) async fn look(
        &self,
        name: &str,
        mut world: World,
        keys: &[TargetKey],
        looking: &Looking<'_>,
    ) -> Result<Seen> {
        let report = looking.report;
        let client = self.client(name).await?;
        within(self.timeout, check(&client)).await?;
        let mut oracle = AskedOnce {
            discovery: Discovery::new(client.clone()),
            reviewer: Reviewer::new(client.clone()),
        };
        let known = within(self.timeout, namespaces::read(&client, &world)).await?;
        let refused = namespaces::apply(known, &mut world, &mut oracle).await;
        let plan = world::plan(&mut world, &mut oracle).await;
        let (gathered, unlisted) = self.list(name, client, &plan, report).await;
        let fields = [
            ("context", name.into()),
            ("objects", gathered.objects.into()),
        ];
        report.event(Level::Debug, "cluster read", &fields);
        let mut outcomes = outcome::outcomes(keys, &plan, gathered, &unlisted, looking.allow_empty);
        outcome::add_refused(&mut outcomes, keys, &refused);
        Ok(Seen { world, outcomes })
    }

    pub(crate) async fn client(&self, name: &str) -> Result<Client> {
        let options = KubeConfigOptions {
            context: Some(name.to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(self.kubeconfig.clone(), &options).await;
        let mut config = config.context("the kubeconfig is not usable for this context")?;
        // Lists decide by themselves when to try again.
        config.default_retry = false;
        config.connect_timeout = Some(self.timeout.min(Duration::from_secs(30)));
        Client::try_from(config).context("cannot build a client from the kubeconfig")
    }

    /// Reads all lists of a plan, a few at a time.
    async fn list(
        &self,
        context: &str,
        client: Client,
        plan: &Plan,
        report: &Report,
    ) -> (Gathered, Vec<Unlisted>) {
        let server = ApiServer::new(client);
        let mut listings = Vec::new();
        for resource in plan.resources() {
            for watch in &resource.watches {
                listings.push(Listing {
                    server: Arc::clone(&server),
                    plan: Arc::clone(resource),
                    watch: watch.clone(),
                    timeout: self.timeout,
                    title: format!("{context} {}, {}", watch.resource, watch.scope),
                });
            }
        }
        let results = stream::iter(listings)
            .map(|listing| listing.read(report))
            .buffer_unordered(self.concurrency)
            .collect::<Vec<_>>()
            .await;
        let mut gathered = Gathered::default();
        let mut unlisted = Vec::new();
        for result in results {
            match result {
                Ok(part) => gathered.add(part),
                Err(failure) => unlisted.push(failure),
            }
        }
        (gathered, unlisted)
    }
}

/// A server that says nothing is not waited for without end.
async fn within<T>(
    time: Duration,
    answer: impl std::future::Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(time, answer).await.unwrap_or_else(|_| {
        bail!(
            "the API server does not answer within {} s; nothing was collected and nothing written; give more time with --timeout",
            time.as_secs()
        )
    })
}

/// Finds out whether the API server answers at all, before anything is concluded from what it does
/// not say.
async fn check(client: &Client) -> Result<()> {
    match client.apiserver_version().await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 401 => {
            bail!("the API server does not accept the credentials; renew them in the kubeconfig")
        }
        Err(error) => bail!(
            "the API server does not answer; nothing was collected and nothing written; check the address, the network and the credentials in the kubeconfig: {}",
            sentence(&error)
        ),
    }
}

/// What went wrong between us and an API server, in words for people.
pub(crate) fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            let message = status.message.trim();
            // What the client says of an answer that it does not understand.
            if message.is_empty() || message.contains("Failed to parse error data") {
                return format!(
                    "HTTP status {}, and an answer that no Kubernetes API gives; is this the address of an API server?",
                    status.code
                );
            }
            format!("{message} (HTTP status {})", status.code)
        }
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text = format!("{text}: {cause_text}");
                }
                source = cause.source();
            }
            text
        }
    }
}

/// Answers of an API server.
pub(crate) struct AskedOnce {
    discovery: Discovery,
    reviewer: Reviewer,
}

impl Oracle for AskedOnce {
    async fn kind(&mut self, gvk: &GroupVersionKind) -> KindFact {
        KindFact::of(self.discovery.resolve(gvk).await, &["list"])
    }

    /// One look needs the right to list, and no other. Where reviews themselves are not possible,
    /// the list gives the answer.
    async fn permission(&mut self, review: &Review) -> Permission {
        match self.reviewer.allows(review, Verb::List).await {
            Ok(true) | Err(_) => Permission::Allowed,
            Ok(false) => Permission::Denied,
        }
    }
}

/// Targets that cannot be looked at, and why.
pub(crate) type Refused = BTreeMap<TargetKey, String>;
