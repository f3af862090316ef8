//! The webhooks of a running operator: what the API server is answered, and with which certificate.
//!
//! ```text
//! API server ─ TLS ─> answer ─ judge (kollect-admission) ─┬─ known: the configuration's watches
//!               ^                                         └─ author: SubjectAccessReviews
//!            custody ─ Secret, caBundle
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`answer`] | a request in, an answer out: bounded in size and time |
//! | [`known`] | what the configuration's watches know, for judgements |
//! | [`author`] | whether an author may read what he lets the operator collect |
//! | [`custody`] | certificate and authority in their Secret, and the authority where the API server looks |
//!
//! Every replica serves, whether it leads or not. Everything runs in a runtime of its own: judging
//! takes as long as tenants make it, and must wait neither for their work nor hold up the lease.

pub mod answer;
pub mod author;
pub mod custody;
mod kinds;
pub mod known;

use std::{sync::Arc, time::Duration};

use kollect_admission::{authorship::Mode, certificates::Terms};
use kollect_api::rules;
use kollect_collect::plan;
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use self::{answer::Webhooks, author::Authors, custody::Custody};
use crate::{
    configuration::Configuration,
    listeners::{Certificate, CertificateFiles, ListenerError, bind, serve},
    metrics::Observed,
    workplaces::Workplace,
};

/// How long requests are still taken after the process was asked to end: until then some API
/// server may not have heard that another replica has to be asked.
const DRAINING: Duration = Duration::from_secs(3);

const LISTENER: &str = "listener-of-webhooks";
const CUSTODY: &str = "webhook-certificate";

/// Whether and how webhooks are served.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Whether at all.
    pub enabled: bool,
    /// Where; `0` for nowhere.
    pub address: String,
    /// With which certificate.
    pub certificate: Keeping,
    /// What is done about authors who may not read what they collect.
    pub authors: Mode,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            address: "0".to_owned(),
            certificate: Keeping::Managed(Managed::default()),
            authors: Mode::default(),
        }
    }
}

impl WebhookSettings {
    /// Whether webhooks are served.
    pub fn are_served(&self) -> bool {
        self.enabled && !matches!(&*self.address, "" | "0")
    }
}

/// Who keeps the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeping {
    /// Somebody else, in files that may change.
    Files(CertificateFiles),
    /// We do, in a Secret.
    Managed(Managed),
}

/// A certificate that we keep ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managed {
    /// The namespace of Secret and Service.
    pub namespace: String,
    /// The Secret.
    pub secret: String,
    /// The Service that the API server calls.
    pub service: String,
    /// The ValidatingWebhookConfiguration.
    pub configuration: String,
    /// Names and addresses beside those of the Service.
    pub hosts: Vec<String>,
    /// For how long things hold.
    pub terms: Terms,
}

impl Default for Managed {
    fn default() -> Self {
        Self {
            namespace: kollect_api::meta::SYSTEM_NAMESPACE.to_owned(),
            secret: "kollect-webhook-cert".to_owned(),
            service: "kollect-webhook-service".to_owned(),
            configuration: "kollect-validating-webhook-configuration".to_owned(),
            hosts: Vec::new(),
            terms: Terms::default(),
        }
    }
}

impl Managed {
    /// What the certificate is for.
    pub fn names(&self) -> Vec<String> {
        let Self {
            namespace, service, ..
        } = self;
        let mut names = vec![
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ];
        names.extend(self.hosts.iter().cloned());
        names
    }
}

/// What webhooks look at and run in.
pub struct Surroundings {
    /// What users configured.
    pub configuration: Arc<Configuration>,
    /// Where counts and readiness go.
    pub observed: Arc<Observed>,
    /// What is valid.
    pub rules: rules::Settings,
    /// What steers collection.
    pub plan: plan::Settings,
    /// Where they run.
    pub place: Workplace,
}

impl WebhookSettings {
    /// Opens the listener and serves until a moment after `stop`.
    pub async fn open(
        &self,
        around: Surroundings,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), ListenerError> {
        let observed = Arc::clone(&around.observed);
        if !self.are_served() {
            observed.admissions.off();
            tracing::info!(
                "admission webhooks are off: the API server checks schemas only, and what the rules \
                 say of an object is in its status"
            );
            return Ok(());
        }
        // A listener belongs to the runtime that opened it.
        let address = self.address.clone();
        let bound = around
            .place
            .runtime
            .spawn(async move { bind("webhook-bind-address", &address).await });
        // A task that cannot be joined has been told to end.
        let Ok(bound) = bound.await else {
            return Ok(());
        };
        let Some(bound) = bound? else {
            return Ok(());
        };
        let (certificate, custody) = match &self.certificate {
            Keeping::Files(files) => {
                let certificate = Certificate::from_files(files.clone())
                    .map_err(ListenerError::WebhookCertificate)?;
                observed.admissions.serving(None);
                (Arc::new(certificate), None)
            }
            Keeping::Managed(managed) => {
                let certificate =
                    Certificate::self_signed().map_err(ListenerError::WebhookCertificate)?;
                let certificate = Arc::new(certificate);
                let what = format!(
                    "the certificate in Secret {}/{}",
                    managed.namespace, managed.secret
                );
                observed.admissions.waiting(what);
                (
                    Arc::clone(&certificate),
                    Some((managed.clone(), certificate)),
                )
            }
        };
        tracing::info!(address = %bound.address, "serving admission webhooks");
        let place = around.place.clone();
        if let Some((managed, certificate)) = custody {
            let (keeper, client) = (observed.keeper.clone(), place.client.clone());
            let (stop, observed) = (stop.clone(), Arc::clone(&observed));
            let kept = async move {
                let keeping = || {
                    let custody = Custody::new(
                        client.clone(),
                        managed.clone(),
                        Arc::clone(&certificate),
                        Arc::clone(&observed),
                    );
                    custody.run(stop.clone())
                };
                Box::pin(keeper.keep(CUSTODY, &stop, keeping)).await;
            };
            tasks.spawn_on(kept, &place.runtime);
        }
        let authors = Authors::new(place.client.clone(), self.authors, around.plan);
        let answer = Arc::new(Webhooks::new(
            around.configuration,
            around.rules,
            authors,
            Arc::clone(&observed),
        ));
        let (keeper, bound, stop) = (observed.keeper.clone(), Arc::new(bound), stop.clone());
        let kept = async move {
            let ending = CancellationToken::new();
            let drained = {
                let ending = ending.clone();
                async move {
                    stop.cancelled().await;
                    sleep(DRAINING).await;
                    ending.cancel();
                }
            };
            let serving = || {
                let (bound, answer) = (Arc::clone(&bound), Arc::clone(&answer));
                serve(
                    bound,
                    Some(Arc::clone(&certificate)),
                    answer,
                    ending.clone(),
                )
            };
            tokio::join!(keeper.keep(LISTENER, &ending, serving), drained);
        };
        tasks.spawn_on(kept, &place.runtime);
        Ok(())
    }
}
