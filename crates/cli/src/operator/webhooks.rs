//! Options of the admission webhooks.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgAction, Args, ValueEnum};
use kollect_admission::{authorship::Mode, certificates::Terms};
use kollect_collect::plan;
use kollect_operator::{
    listeners::CertificateFiles,
    webhooks::{Keeping, Managed, WebhookSettings},
};

use super::{
    duration, election,
    inherited::{GoSwitch as _, switch},
};

/// Shorter ones could not be replaced in time.
const SHORTEST: Duration = Duration::from_secs(5);
/// Longer ones outlive whoever looks after them.
const MOST_DAYS: u64 = 3650;

/// Options of the admission webhooks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Admission")]
pub(super) struct Webhooks {
    /// Serve admission webhooks [default: true in a pod, false elsewhere and with --tenant-mode].
    #[arg(long, action = ArgAction::Set, value_parser = switch, go_switch())]
    validating_webhooks_enabled: Option<bool>,
    /// Where webhooks are served; 0 for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = ":9443")]
    webhook_bind_address: String,
    /// Directory of the certificate, read again when it changes; empty for one that the operator
    /// makes and renews itself.
    #[arg(
        long,
        visible_alias = "webhook-cert-path",
        value_name = "DIR",
        default_value = ""
    )]
    webhook_cert_dir: String,
    /// File of the certificate in that directory.
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    webhook_cert_name: PathBuf,
    /// File of its private key in that directory.
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    webhook_cert_key: PathBuf,
    /// Secret in the pod's namespace that replicas share the operator's own certificate in.
    #[arg(long, value_name = "NAME", default_value = "kollect-webhook-cert")]
    webhook_secret_name: String,
    /// Service in the pod's namespace that the API server calls.
    #[arg(long, value_name = "NAME", default_value = "kollect-webhook-service")]
    webhook_service_name: String,
    /// ValidatingWebhookConfiguration whose caBundle the operator keeps current.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "kollect-validating-webhook-configuration"
    )]
    webhook_configuration_name: String,
    /// Names and addresses that the operator's own certificate is for, beside those of the Service.
    #[arg(long, value_name = "LIST", default_value = "")]
    webhook_hosts: String,
    /// How long the operator's own certificate holds, such as 90d or 12h; its authority holds four times as long.
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = lifetime)]
    webhook_cert_lifetime: Duration,
    /// Refuse cluster targets and cluster inventories [default: as --tenant-mode].
    #[arg(long, action = ArgAction::Set, value_parser = switch, go_switch())]
    deny_cluster_kinds: Option<bool>,
    /// What to do when the author of a target or profile may not list what is collected.
    #[arg(long, value_name = "MODE", default_value = "warn")]
    target_authorization: Authorization,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Authorization {
    /// Nobody is asked.
    Off,
    /// The author is warned.
    Warn,
    /// The object is refused.
    Enforce,
}

impl Webhooks {
    /// Whether cluster kinds are refused.
    pub(super) fn deny_cluster_kinds(&self, tenant_mode: bool) -> bool {
        self.deny_cluster_kinds.unwrap_or(tenant_mode)
    }

    /// The settings; `namespace` is the pod's own.
    pub(super) fn settings(&self, namespace: String, tenant_mode: bool) -> WebhookSettings {
        let certificate = if self.webhook_cert_dir.is_empty() {
            Keeping::Managed(Managed {
                namespace,
                secret: self.webhook_secret_name.clone(),
                service: self.webhook_service_name.clone(),
                configuration: self.webhook_configuration_name.clone(),
                hosts: plan::comma_list(&self.webhook_hosts),
                terms: Terms::of(self.webhook_cert_lifetime),
            })
        } else {
            let directory = Path::new(&self.webhook_cert_dir);
            Keeping::Files(CertificateFiles {
                certificate: directory.join(&self.webhook_cert_name),
                key: directory.join(&self.webhook_cert_key),
            })
        };
        WebhookSettings {
            // Outside of a pod no Service leads here, and a webhook takes rights in the whole cluster
            // that no Role can grant.
            enabled: self
                .validating_webhooks_enabled
                .unwrap_or_else(|| !tenant_mode && election::in_a_pod()),
            address: self.webhook_bind_address.clone(),
            certificate,
            authors: match self.target_authorization {
                Authorization::Off => Mode::Off,
                Authorization::Warn => Mode::Warn,
                Authorization::Enforce => Mode::Enforce,
            },
        }
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').map(str::parse::<u64>);
    let lifetime = match days {
        Some(Ok(days)) if days <= MOST_DAYS => Duration::from_hours(24 * days),
        Some(_) => {
            return Err(format!(
                "must be a number of days up to {MOST_DAYS}, such as 90d"
            ));
        }
        None => duration(text)?,
    };
    if lifetime < SHORTEST {
        return Err(format!("must be at least {} s", SHORTEST.as_secs()));
    }
    Ok(lifetime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_days_or_shorter() {
        for (text, seconds) in [
            ("90d", Some(90 * 86_400)),
            ("24h", Some(86_400)),
            ("5s", Some(5)),
            ("1s", None),
            ("0d", None),
            ("3651d", None),
            ("-1d", None),
            ("d", None),
            ("2160h", None),
            ("", None),
        ] {
            let read = lifetime(text).ok().map(|lifetime| lifetime.as_secs());
            assert_eq!(read, seconds, "{text:?}");
        }
    }
}
