//! The listeners of an operator, as they are asked for.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    Answer, BindError, Bound, Certificate, CertificateError, CertificateFiles, Guard, Health,
    Scrape, bind, serve,
};
use crate::metrics::{Metrics, Observed, SAMPLE_INTERVAL};

/// Where probes are answered and metrics served, and to whom.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Where probes are answered; `0` for nowhere.
    pub health_address: String,
    /// Where metrics are served; `0` for nowhere.
    pub metrics_address: String,
    /// Whether metrics are served over HTTPS, and only to those whom the cluster allows to read
    /// them.
    pub secure_metrics: bool,
    /// The certificate for metrics; without one it is self-signed.
    pub certificate: Option<CertificateFiles>,
    /// How long series that profiles define may be reused.
    pub sample_interval: Duration,
}

impl Default for ListenerSettings {
    fn default() -> Self {
        Self {
            health_address: "0".to_owned(),
            metrics_address: "0".to_owned(),
            secure_metrics: true,
            certificate: None,
            sample_interval: SAMPLE_INTERVAL,
        }
    }
}

/// A listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// Its address cannot be used.
    #[error(transparent)]
    Address(#[from] BindError),
    /// There is no certificate to serve metrics with.
    #[error("no certificate for metrics; check --metrics-cert-path, -name and -key")]
    Certificate(#[from] CertificateError),
    /// There is no certificate to serve webhooks with.
    #[error("no certificate for admission webhooks: {0}; check --webhook-cert-dir, -name and -key")]
    WebhookCertificate(#[source] CertificateError),
}

/// What the listeners are called where tasks are counted.
const PROBES: &str = "listener-of-probes";
const METRICS: &str = "listener-of-metrics";

/// Serves until `stop`, whatever happens.
fn keep(
    observed: &Arc<Observed>,
    task: &'static str,
    bound: Bound,
    certificate: Option<Arc<Certificate>>,
    answer: Arc<impl Answer>,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let (keeper, bound, stop) = (observed.keeper.clone(), Arc::new(bound), stop.clone());
    async move {
        let serving = || {
            let bound = Arc::clone(&bound);
            serve(
                bound,
                certificate.clone(),
                Arc::clone(&answer),
                stop.clone(),
            )
        };
        keeper.keep(task, &stop, serving).await;
    }
}

impl ListenerSettings {
    /// Opens the listeners and serves until `stop`.
    pub async fn open(
        &self,
        client: &Client,
        observed: &Arc<Observed>,
        stop: &CancellationToken,
    ) -> Result<JoinSet<()>, ListenerError> {
        let mut tasks = JoinSet::new();
        if let Some(bound) = bind("health-probe-bind-address", &self.health_address).await? {
            tracing::info!(address = %bound.address, "answering probes");
            let health = Arc::new(Health {
                observed: Arc::clone(observed),
            });
            tasks.spawn(keep(observed, PROBES, bound, None, health, stop));
        }
        if let Some(bound) = bind("metrics-bind-address", &self.metrics_address).await? {
            let secure = self.secure_metrics;
            tracing::info!(address = %bound.address, secure, "serving metrics");
            let certificate = secure.then(|| self.certificate()).transpose()?;
            let scrape = Arc::new(Scrape {
                metrics: Arc::new(Metrics::new(Arc::clone(observed), self.sample_interval)),
                guard: secure.then(|| Guard::new(client.clone())),
            });
            tasks.spawn(keep(observed, METRICS, bound, certificate, scrape, stop));
        }
        Ok(tasks)
    }

    fn certificate(&self) -> Result<Arc<Certificate>, CertificateError> {
        let certificate = match &self.certificate {
            None => Certificate::self_signed(),
            Some(files) => Certificate::from_files(files.clone()),
        };
        certificate.map(Arc::new)
    }
}
