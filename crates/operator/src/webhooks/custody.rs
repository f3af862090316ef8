//! Certificate and authority in their Secret, and the authority where the API server looks.
//!
//! Every replica does the same: read the Secret, decide, write what is missing, serve what is
//! there. Writes name the version they are based on, so of several replicas one succeeds and the
//! others read what it wrote.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret},
};
use kollect_admission::certificates::{Content, MakeError, Step, Unfit, decide, take};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Managed;
use crate::{api_error::Sentence, keeper, listeners::Certificate, metrics::Observed};

/// How often it is looked whether something has to be done.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How many steps follow each other at once, and how often somebody else may have been faster.
const STEPS: usize = 8;

/// Certificate and authority could not be looked after.
#[derive(Debug, thiserror::Error)]
pub enum CustodyError {
    /// The API server refused or did not answer.
    #[error("cannot {what}: {why}")]
    Server {
        /// What was tried.
        what: String,
        /// What it said.
        why: String,
        /// Whether somebody else was faster.
        conflict: bool,
    },
    /// Nothing could be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// What is there cannot be served.
    #[error("the certificate in Secret {secret:?} cannot be served: {why}")]
    Unusable {
        /// Which Secret.
        secret: String,
        /// Why.
        why: String,
    },
    /// Others write it all the time.
    #[error("Secret {0:?} is changed by others again and again")]
    Contended(String),
}

/// Looks after the certificate.
pub struct Custody {
    secrets: Api<Secret>,
    configurations: Api<ValidatingWebhookConfiguration>,
    settings: Managed,
    names: Vec<String>,
    certificate: Arc<Certificate>,
    observed: Arc<Observed>,
    /// What is served.
    served: Option<Content>,
    /// What was last said about the configuration.
    told: Option<String>,
}

impl Custody {
    /// Serves what it finds or makes through `certificate`.
    pub fn new(
        client: Client,
        settings: Managed,
        certificate: Arc<Certificate>,
        observed: Arc<Observed>,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            configurations: Api::all(client),
            names: settings.names(),
            settings,
            certificate,
            observed,
            served: None,
            told: None,
        }
    }

    /// Looks after it until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let interval =
            (self.settings.terms.serving / 30).clamp(Duration::from_millis(200), INTERVAL);
        let mut failures = 0;
        loop {
            let wait = match self.turn().await {
                Ok(()) => {
                    failures = 0;
                    interval
                }
                Err(error) => {
                    failures += 1;
                    let wait = keeper::back_off(failures).max(interval);
                    self.tell(&error, wait);
                    wait
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(wait) => {}
            }
        }
    }

    fn tell(&self, error: &CustodyError, wait: Duration) {
        let again = wait.as_secs().max(1);
        if self.served.is_none() {
            self.observed.admissions.waiting(error.to_string());
            tracing::warn!(
                "admission webhooks have no certificate: {error}; grant the operator get, create and \
                 update on it, give --webhook-cert-dir, or turn them off with \
                 --validating-webhooks-enabled=false; tried again in {again} s"
            );
        } else {
            tracing::warn!(
                "the certificate of the admission webhooks cannot be looked after: {error}; the one in \
                 use stays; tried again in {again} s"
            );
        }
    }

    /// Looks once, and does everything that is due.
    async fn turn(&mut self) -> Result<(), CustodyError> {
        let content = self.settle().await?;
        if self.served.as_ref() != Some(&content) {
            let serving = &content.serving;
            let swapped = self.certificate.swap(&serving.certificate, &serving.key);
            swapped.map_err(|error| CustodyError::Unusable {
                secret: self.settings.secret.clone(),
                why: error.to_string(),
            })?;
            tracing::info!(
                until = content.ends().map(|until| until.to_string()),
                "the admission webhooks have a certificate"
            );
        }
        let bundle = content.bundle();
        self.observed.admissions.serving(content.ends());
        self.served = Some(content);
        self.announce(&bundle).await
    }

    /// Brings the Secret where it should be, and returns what it holds then.
    async fn settle(&mut self) -> Result<Content, CustodyError> {
        for _ in 0..STEPS {
            let secret = self.read().await?;
            let data = secret.as_ref().map(|secret| secret.data.as_ref());
            let stored = match data {
                None => Err(Unfit::Absent),
                Some(None) => Err(Unfit::Empty),
                Some(Some(data)) => Content::read(data).map_err(Unfit::from),
            };
            let now = Timestamp::now();
            let terms = &self.settings.terms;
            let next = |content: Result<&Content, Unfit>| decide(now, content, &self.names, terms);
            let step = next(stored.as_ref().map_err(Clone::clone));
            if step == Step::Keep
                && let Ok(stored) = stored
            {
                return Ok(stored);
            }
            // What is served is better than something new: nobody has to learn of it.
            let kept = self.served.as_ref();
            let kept = kept.filter(|kept| !matches!(next(Ok(kept)), Step::Replace(_)));
            let wanted = match (&step, kept) {
                (Step::Replace(_), Some(kept)) => Some(kept.clone()),
                _ => take(&step, stored.as_ref().ok(), &self.names, now, terms)?,
            };
            let Some(wanted) = wanted else {
                continue;
            };
            match self.write(secret, &wanted).await {
                Ok(()) => self.say(&step),
                // Somebody was faster; what he wrote is as good.
                Err(CustodyError::Server { conflict: true, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(CustodyError::Contended(self.settings.secret.clone()))
    }

    fn say(&self, step: &Step) {
        let secret = format!("{}/{}", self.settings.namespace, self.settings.secret);
        match step {
            Step::Keep => {}
            Step::Renew(why) => tracing::info!(secret, why, "a new certificate was made"),
            Step::Announce => tracing::info!(
                secret,
                "a new authority was made; it signs when all trust it"
            ),
            Step::Switch => tracing::info!(secret, "the new authority signs from now on"),
            Step::Retire => tracing::info!(secret, "the old authority is not trusted any more"),
            Step::Replace(Unfit::Absent | Unfit::Empty) => {
                tracing::info!(secret, "certificate and authority were written");
            }
            Step::Replace(why) => {
                tracing::warn!(secret, %why, "certificate and authority were replaced");
            }
        }
    }

    async fn read(&self) -> Result<Option<Secret>, CustodyError> {
        let what = || {
            format!(
                "get Secret {}/{}",
                self.settings.namespace, self.settings.secret
            )
        };
        within(what, self.secrets.get_opt(&self.settings.secret)).await
    }

    async fn write(&self, secret: Option<Secret>, content: &Content) -> Result<(), CustodyError> {
        let what = || {
            format!(
                "write Secret {}/{}",
                self.settings.namespace, self.settings.secret
            )
        };
        let parameters = PostParams::default();
        let Some(mut secret) = secret else {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.settings.secret.clone()),
                    labels: Some(
                        [("app.kubernetes.io/managed-by", "kollect")]
                            .map(|(key, value)| (key.to_owned(), value.to_owned()))
                            .into(),
                    ),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data: Some(content.write()),
                ..Secret::default()
            };
            within(what, self.secrets.create(&parameters, &secret)).await?;
            return Ok(());
        };
        // With the version that was read: whoever wrote since is not overwritten.
        secret.data = Some(content.write());
        let name = &self.settings.secret;
        within(what, self.secrets.replace(name, &parameters, &secret)).await?;
        Ok(())
    }

    /// Sees to it that the API server trusts what is served.
    async fn announce(&mut self, bundle: &str) -> Result<(), CustodyError> {
        let name = self.settings.configuration.clone();
        for _ in 0..STEPS {
            let what = || format!("get ValidatingWebhookConfiguration {name:?}");
            let found = within(what, self.configurations.get_opt(&name)).await?;
            let Some(mut found) = found else {
                self.tell_once(&format!(
                    "there is no ValidatingWebhookConfiguration {name:?}, so nobody asks the admission \
                     webhooks; install it, or give its name by --webhook-configuration-name"
                ));
                return Ok(());
            };
            if !trust(&mut found, bundle) {
                self.told = None;
                return Ok(());
            }
            let what = || format!("update ValidatingWebhookConfiguration {name:?}");
            let parameters = PostParams::default();
            let written = self.configurations.replace(&name, &parameters, &found);
            match within(what, written).await {
                Ok(_) => tracing::info!(name, "the API server was told whom to trust"),
                Err(CustodyError::Server { conflict: true, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(CustodyError::Contended(name))
    }

    fn tell_once(&mut self, text: &str) {
        if self.told.as_deref() != Some(text) {
            tracing::warn!("{text}");
            self.told = Some(text.to_owned());
        }
    }
}

/// Puts the authorities into all webhooks; whether that changed anything.
fn trust(configuration: &mut ValidatingWebhookConfiguration, bundle: &str) -> bool {
    let wanted = ByteString(bundle.as_bytes().to_vec());
    let mut changed = false;
    for webhook in configuration.webhooks.iter_mut().flatten() {
        let known = &mut webhook.client_config.ca_bundle;
        if known.as_ref() != Some(&wanted) {
            *known = Some(wanted.clone());
            changed = true;
        }
    }
    changed
}

async fn within<T>(
    what: impl Fn() -> String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CustodyError> {
    let failed = |why: String, conflict| CustodyError::Server {
        what: what(),
        why,
        conflict,
    };
    match timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
            Err(failed(Sentence(&error).to_string(), conflict))
        }
        Err(_) => Err(failed(
            format!("no answer within {} s", DEADLINE.as_secs()),
            false,
        )),
    }
}
