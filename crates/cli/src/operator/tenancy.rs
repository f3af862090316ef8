//! Options that keep namespaces apart.

use clap::{ArgAction, Args};
use kollect_api::{rules::SecretExtraction, scope::Quota};

use super::inherited::{GoSwitch as _, switch};

/// Options that keep namespaces apart.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tenancy")]
pub(super) struct Tenancy {
    /// Targets of a namespace without a KollectScope collect from that namespace alone.
    #[arg(long, action = ArgAction::Set, default_value_t = false, value_parser = switch, go_switch())]
    pub(super) require_scope: bool,
    /// Whose word it takes to collect Secrets of other namespaces: `granted` asks for an
    /// administrator's (KollectClusterScope or Namespace), `annotation` takes the profile's alone.
    #[arg(
        long,
        value_name = "WORD",
        default_value_t = SecretExtraction::default(),
        value_parser = str::parse::<SecretExtraction>
    )]
    pub(super) secret_extraction: SecretExtraction,
    /// Targets that a namespace may have collected, unless its scopes say otherwise; 0 for any
    /// number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    quota_targets: u64,
    /// Sinks that a namespace may use; 0 for any number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    quota_sinks: u64,
    /// Rows that the targets of a namespace may hold together; 0 for any number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    quota_rows: u64,
    /// Bytes of memory that these rows may take; 0 for any number.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    quota_row_bytes: u64,
    /// Bytes of disk that the Git mirrors of a namespace may take; 0 for any number.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    quota_mirror_bytes: u64,
}

impl Tenancy {
    /// What namespaces may use that no scope says anything else about.
    pub(super) fn quota(&self) -> Quota {
        let limit = |number: u64| Some(number).filter(|number| *number > 0);
        Quota {
            targets: limit(self.quota_targets),
            sinks: limit(self.quota_sinks),
            rows: limit(self.quota_rows),
            row_bytes: limit(self.quota_row_bytes),
            mirror_bytes: limit(self.quota_mirror_bytes),
        }
    }
}
