//! The objects of our kinds that a cluster holds.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use kollect_admission::hooks::{HOOKS, Hook};
use kollect_api::meta;
use kollect_operator::api_error::Sentence;
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, ListParams},
    config::KubeConfigOptions,
};
use tokio::time::timeout;

use crate::{
    collect::contexts::read_kubeconfig,
    manifest::{Document, Places},
    terminal,
};

/// How many objects come at a time.
const PAGE: u32 = 500;
/// How long one page may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Which cluster, and what of it.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Kubeconfig file; otherwise as kubectl finds it.
    #[arg(long, value_name = "FILE", requires = "live")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; the current one if not given.
    #[arg(long, value_name = "NAME", requires = "live")]
    context: Option<String>,
    /// Look at this namespace only, and at no cluster kinds.
    #[arg(short = 'n', long, value_name = "NAMESPACE", requires = "live")]
    namespace: Option<String>,
}

/// Reads all objects of our kinds. What may not be listed is an error: it is not as good as empty.
pub(super) fn read(place: &Place) -> Result<Vec<Document>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let client = client(place).await?;
        let mut documents = Vec::new();
        for hook in &HOOKS {
            if hook.namespaced || place.namespace.is_none() {
                documents.extend(list(&client, hook, place.namespace.as_deref()).await?);
            }
        }
        Ok(documents)
    })
}

async fn client(place: &Place) -> Result<Client> {
    let kubeconfig = read_kubeconfig(place.kubeconfig.as_deref())?;
    let options = KubeConfigOptions {
        context: place.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.context("the kubeconfig is not usable for this context")?;
    Client::try_from(config).context("cannot build a client from the kubeconfig")
}

async fn list(client: &Client, hook: &Hook, namespace: Option<&str>) -> Result<Vec<Document>> {
    let resource = ApiResource {
        group: meta::GROUP.to_owned(),
        version: meta::VERSION.to_owned(),
        api_version: meta::API_VERSION.to_owned(),
        kind: hook.kind.to_owned(),
        plural: hook.plural.to_owned(),
    };
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut documents = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = match timeout(DEADLINE, api.list(&parameters)).await {
            Ok(Ok(page)) => page,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                terminal::say(&format!(
                    "warning: {} are not installed in this cluster; see kollect crds",
                    hook.plural
                ));
                return Ok(documents);
            }
            Ok(Err(error)) => {
                let why = anyhow!("{}", Sentence(&error));
                return Err(why.context(format!("cannot list {}", hook.plural)));
            }
            Err(_) => {
                return Err(
                    anyhow!("no answer in time").context(format!("cannot list {}", hook.plural))
                );
            }
        };
        for object in page.items {
            documents.push(document(hook, object)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(documents),
        }
    }
}

fn document(hook: &Hook, mut object: DynamicObject) -> Result<Document> {
    // Nobody wrote these, and they are not for the rules.
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(&object)?;
    if let Some(members) = value.as_object_mut() {
        members.remove("status");
        members.insert("apiVersion".to_owned(), meta::API_VERSION.into());
        members.insert("kind".to_owned(), hook.kind.into());
    }
    let named = match object.metadata.namespace.as_deref() {
        Some(namespace) => format!("{}/{namespace}", hook.plural),
        None => hook.plural.to_owned(),
    };
    Ok(Document {
        file: named.into(),
        value,
        places: Places::default(),
    })
}
