//! Rules for the three sink kinds.

use super::{
    Settings, Surroundings, endpoint,
    finding::{Findings, Path},
    nats, reference, template,
};
use crate::{
    effective,
    reference::SecretReference,
    sink::{
        KollectDatabaseSinkSpec, KollectEventSinkSpec, KollectSnapshotSinkSpec, SinkCommon,
        SinkType,
        common::{Compression, Format, Layout, LayoutContent, LayoutMode, ProvisioningMode},
        database::{DatabaseSinkType, POSTGRES_VIEW_COLUMNS, Postgres},
        event::{EventSinkType, Nats},
        snapshot::{
            AzureBlob, Git, MergeRequestMode, ObjectStore, Partitioning, PushPolicy,
            SnapshotSinkType,
        },
    },
};

/// Parts of option names that would be credentials, which belong into a Secret.
const SECRET_WORDS: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
];

/// A template, the field it stands in and the rule for it.
type TemplateRule<'t> = (
    Option<&'t str>,
    &'static str,
    fn(&str) -> Result<(), String>,
);

/// What every check of a sink looks at.
struct Sink<'s> {
    type_: SinkType,
    common: &'s SinkCommon,
    namespace: &'s str,
    settings: &'s Settings,
}

pub(super) fn check_snapshot(
    spec: &KollectSnapshotSinkSpec,
    namespace: &str,
    settings: &Settings,
) -> Findings {
    let mut findings = Findings::default();
    let type_ = SinkType::from(spec.type_);
    let sink = Sink {
        type_,
        common: &spec.common,
        namespace,
        settings,
    };
    let at = |field: &str| Path::spec().field(field);
    sink.check_common(&mut findings);
    sink.check_endpoint(
        spec.common.endpoint.as_deref(),
        at("endpoint"),
        &mut findings,
    );

    let stray = |given: bool, block: &str, findings: &mut Findings| {
        if given {
            findings.forbidden(
                at(block),
                format!("has no meaning for type {type_}; remove it"),
            );
        }
    };
    stray(spec.git.is_some() && !type_.is_git(), "git", &mut findings);
    stray(
        spec.gitlab.is_some() && type_ != SinkType::Gitlab,
        "gitlab",
        &mut findings,
    );
    stray(
        spec.object_store.is_some() && type_.is_git(),
        "objectStore",
        &mut findings,
    );
    stray(spec.http.is_some(), "http", &mut findings);
    match (&spec.azure_blob, type_) {
        (blob, SinkType::Azureblob) => {
            check_azure_blob(
                blob.as_ref(),
                spec.common.endpoint.as_deref(),
                &mut findings,
            );
        }
        (blob, _) => stray(blob.is_some(), "azureBlob", &mut findings),
    }
    match &spec.common.layout {
        Some(layout) if type_.is_git() => check_layout(layout, &mut findings),
        layout => stray(layout.is_some(), "layout", &mut findings),
    }
    if let Some(store) = &spec.object_store {
        check_object_store(store, &mut findings);
    }
    if let Some(git) = &spec.git {
        sink.check_git(git, &mut findings);
    }
    if let Some(request) = spec
        .gitlab
        .as_ref()
        .and_then(|gitlab| gitlab.merge_request.as_ref())
    {
        let branch = request.target_branch.as_deref().unwrap_or_default();
        let path = at("gitlab.mergeRequest.targetBranch");
        if let Err(detail) = template::branch(branch) {
            findings.invalid(path, branch, detail);
        } else if request.mode == Some(MergeRequestMode::MergeRequest) && branch.trim().is_empty() {
            findings.required(path, "the branch that merge requests aim at");
        }
    }
    snapshot_warnings(spec, &mut findings);
    findings
}

pub(super) fn check_database(
    spec: &KollectDatabaseSinkSpec,
    namespace: &str,
    settings: &Settings,
) -> Findings {
    let mut findings = Findings::default();
    let sink = Sink {
        type_: spec.type_.into(),
        common: &spec.common,
        namespace,
        settings,
    };
    sink.check_common(&mut findings);
    sink.forbid_layout(&mut findings);
    let is = |type_: DatabaseSinkType| spec.type_ == type_;
    let findings_ref = &mut findings;
    sink.check_block(
        "postgres",
        spec.postgres.is_some(),
        is(DatabaseSinkType::Postgres),
        findings_ref,
    );
    sink.check_block(
        "mongodb",
        spec.mongodb.is_some(),
        is(DatabaseSinkType::Mongodb),
        findings_ref,
    );
    sink.check_block(
        "bigquery",
        spec.bigquery.is_some(),
        is(DatabaseSinkType::Bigquery),
        findings_ref,
    );

    let at = |field: &str| Path::spec().field(field);
    if let Some(postgres) = &spec.postgres {
        sink.check_secret(
            &postgres.database_ref,
            &at("postgres.databaseRef"),
            &mut findings,
        );
        reference::not_blank(
            &postgres.table,
            at("postgres.table"),
            "name of the table",
            &mut findings,
        );
        check_postgres_extras(postgres, &mut findings);
    }
    if let Some(mongodb) = &spec.mongodb {
        sink.check_secret(
            &mongodb.database_ref,
            &at("mongodb.databaseRef"),
            &mut findings,
        );
        for (value, field) in [
            (&mongodb.database, "mongodb.database"),
            (&mongodb.collection, "mongodb.collection"),
        ] {
            reference::not_blank(value, at(field), "must not be blank", &mut findings);
        }
    }
    if let Some(bigquery) = &spec.bigquery {
        for (value, field) in [
            (&bigquery.project, "bigquery.project"),
            (&bigquery.dataset, "bigquery.dataset"),
            (&bigquery.table, "bigquery.table"),
        ] {
            reference::not_blank(value, at(field), "must not be blank", &mut findings);
        }
        if let Some(secret) = &bigquery.secret_ref {
            sink.check_secret(secret, &at("bigquery.secretRef"), &mut findings);
        }
    }
    sink.common_warnings(&mut findings);
    findings
}

pub(super) fn check_event(
    spec: &KollectEventSinkSpec,
    namespace: &str,
    settings: &Settings,
) -> Findings {
    let mut findings = Findings::default();
    let sink = Sink {
        type_: spec.type_.into(),
        common: &spec.common,
        namespace,
        settings,
    };
    sink.check_common(&mut findings);
    sink.forbid_layout(&mut findings);
    sink.check_block(
        "nats",
        spec.nats.is_some(),
        spec.type_ == EventSinkType::Nats,
        &mut findings,
    );
    sink.check_block(
        "kafka",
        spec.kafka.is_some(),
        spec.type_ == EventSinkType::Kafka,
        &mut findings,
    );

    let at = |field: &str| Path::spec().field(field);
    if spec.common.path_template.is_some() {
        let detail = "is only for files; topics and subjects have no path";
        findings.forbidden(at("pathTemplate"), detail);
    }
    if let Some(nats) = &spec.nats {
        sink.check_nats(nats, &mut findings);
    }
    if let Some(kafka) = &spec.kafka {
        reference::not_blank(
            &kafka.topic,
            at("kafka.topic"),
            "topic to produce to",
            &mut findings,
        );
        if kafka.brokers.is_empty() {
            findings.required(at("kafka.brokers"), "at least one host:port");
        }
        for (index, broker) in kafka.brokers.iter().enumerate() {
            let path = at("kafka.brokers").index(index);
            reference::not_blank(broker, path.clone(), "host:port of a broker", &mut findings);
            sink.check_endpoint(Some(broker), path, &mut findings);
        }
        if let Some(secret) = &kafka.secret_ref {
            sink.check_secret(secret, &at("kafka.secretRef"), &mut findings);
        }
    }
    sink.common_warnings(&mut findings);
    findings
}

/// The sink's own interval against the scopes of its namespace.
pub(super) fn check_floor(
    common: &SinkCommon,
    surroundings: &Surroundings,
    findings: &mut Findings,
) {
    let floor = effective::floor(surroundings.scopes.iter().map(|scope| scope.ceiling()));
    let path = Path::spec().field("exportMinInterval");
    reference::above_floor(
        common.export_min_interval.as_ref(),
        path,
        floor,
        false,
        findings,
    );
}

impl Sink<'_> {
    fn check_common(&self, findings: &mut Findings) {
        let at = |field: &str| Path::spec().field(field);
        let common = self.common;
        let templates: [TemplateRule<'_>; 2] = [
            (
                common.path_template.as_deref(),
                "pathTemplate",
                template::document_path,
            ),
            (
                common
                    .provisioning
                    .as_ref()
                    .and_then(|provisioning| provisioning.naming.as_ref()?.template.as_deref()),
                "provisioning.naming.template",
                template::destination_name,
            ),
        ];
        for (text, field, rule) in templates {
            if let Some(text) = text
                && let Err(detail) = rule(text)
            {
                findings.invalid(at(field), text, detail);
            }
        }
        for (interval, field) in [
            (&common.export_min_interval, "exportMinInterval"),
            (&common.change_interval, "changeInterval"),
        ] {
            reference::interval(interval.as_ref(), at(field), findings);
        }
        for key in common.options.keys() {
            let plain = key.to_lowercase().replace(['_', '-', '.'], "");
            if SECRET_WORDS.iter().any(|word| plain.contains(word)) {
                findings.forbidden(
                    at("options").key(key),
                    "looks like a credential; put it into the Secret of secretRef",
                );
            }
        }
        if let Some(format) = common.serialization.as_ref().and_then(|s| s.format)
            && format != Format::Json
            && !self.type_.formats().contains(&format)
        {
            findings.unsupported(
                at("serialization.format"),
                format.as_str(),
                self.type_
                    .formats()
                    .iter()
                    .map(|format| format.as_str())
                    .collect(),
            );
        }
        if let Some(secret) = &common.secret_ref {
            self.check_secret(secret, &at("secretRef"), findings);
        }
        if let Some(tls) = &common.tls {
            if let Some(secret) = &tls.ca_secret_ref {
                self.check_secret(secret, &at("tls.caSecretRef"), findings);
                if tls.ca_bundle.is_some() {
                    findings.forbidden(at("tls.caBundle"), "caSecretRef is set; give one of them");
                }
            }
            if tls
                .ca_bundle
                .as_ref()
                .is_some_and(|bundle| bundle.0.len() > 64 * 1024)
            {
                findings.forbidden(at("tls.caBundle"), "must be at most 64 KiB");
            }
        }
    }

    fn check_secret(&self, secret: &SecretReference, path: &Path, findings: &mut Findings) {
        reference::secret(secret, path, self.namespace, self.settings, findings);
    }

    fn check_endpoint(&self, endpoint: Option<&str>, path: Path, findings: &mut Findings) {
        let Settings {
            addresses,
            local_repositories,
            ..
        } = self.settings;
        if let Some(endpoint) = endpoint
            && let Err(error) =
                endpoint::check(self.type_, endpoint, addresses, *local_repositories)
        {
            findings.forbidden(path, error.to_string());
        }
    }

    fn check_block(&self, block: &str, given: bool, wanted: bool, findings: &mut Findings) {
        let path = Path::spec().field(block);
        match (given, wanted) {
            (false, true) => findings.required(path, format!("settings of type {}", self.type_)),
            (true, false) => findings.forbidden(
                path,
                format!("has no meaning for type {}; remove it", self.type_),
            ),
            _ => {}
        }
    }

    fn forbid_layout(&self, findings: &mut Findings) {
        if self.common.layout.is_some() {
            findings.forbidden(Path::spec().field("layout"), "is only for git and gitlab");
        }
    }

    fn check_git(&self, git: &Git, findings: &mut Findings) {
        let at = |field: &str| Path::spec().field("git").field(field);
        if let Some(branch) = &git.branch
            && let Err(detail) = template::branch(branch)
        {
            findings.invalid(at("branch"), branch, detail);
        }
        if let Some(secret) = git.auth.as_ref().and_then(|auth| auth.secret_ref.as_ref()) {
            self.check_secret(secret, &at("auth.secretRef"), findings);
        }
        if let Some(depth) = git.clone_depth.filter(|depth| *depth < 1) {
            findings.invalid(at("cloneDepth"), depth, "must be at least 1");
        }
    }

    fn check_nats(&self, nats: &Nats, findings: &mut Findings) {
        let at = |field: &str| Path::spec().field(field);
        if let Err(detail) = nats::subject(&nats.subject) {
            findings.invalid(at("nats.subject"), &nats.subject, detail);
        }
        if let Some(stream) = &nats.stream
            && let Err(detail) = nats::stream(stream)
        {
            findings.invalid(at("nats.stream"), stream, detail);
        }
        let url = nats.url.as_deref().filter(|url| !url.trim().is_empty());
        let (url, field) = match url {
            Some(url) => (url, "nats.url"),
            None => (
                self.common.endpoint.as_deref().unwrap_or_default(),
                "endpoint",
            ),
        };
        if url.trim().is_empty() {
            findings.required(at("nats.url"), "URL of a server, here or as spec.endpoint");
        } else if let Err(error) = nats::servers(url) {
            // The text may hold a password.
            findings.forbidden(at(field), error.to_string());
        }
        self.check_endpoint(Some(url), at(field), findings);
        if let Some(secret) = &nats.secret_ref {
            self.check_secret(secret, &at("nats.secretRef"), findings);
        }
        let compression = effective::asked_compression(self.common);
        if compression != Compression::None {
            let detail = "NATS has no compression of messages; remove it";
            findings.forbidden(at("serialization.compression"), detail);
        }
    }

    fn common_warnings(&self, findings: &mut Findings) {
        let common = self.common;
        if effective::provisioning_mode(common) == ProvisioningMode::Existing {
            findings.warn(
                "spec.provisioning.mode is existing: nothing is created, destinations are checked to exist",
            );
        }
        if common
            .tls
            .as_ref()
            .is_some_and(|tls| tls.insecure_skip_verify)
        {
            findings.warn(
                "spec.tls.insecureSkipVerify accepts any certificate; prefer caBundle or caSecretRef",
            );
        }
        let plain = common.endpoint.as_deref().is_some_and(|endpoint| {
            endpoint
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("http://")
        });
        if plain && common.secret_ref.is_some() {
            findings.warn("spec.endpoint is plain http: credentials travel unencrypted");
        }
    }
}

/// The views and the history of Postgres.
fn check_postgres_extras(postgres: &Postgres, findings: &mut Findings) {
    let at = |field: &str| Path::spec().field("postgres").field(field);
    let mut taken = vec![postgres.table.trim()];
    if let Some(history) = &postgres.history {
        let path = at("history").field("table");
        reference::not_blank(&history.table, path.clone(), "name of the table", findings);
        if taken.contains(&history.table.trim()) {
            findings.invalid(
                path,
                &history.table,
                "is the name of the table for the rows",
            );
        }
        taken.push(history.table.trim());
    }
    for (index, view) in postgres.views.iter().enumerate() {
        let here = at("views").index(index);
        reference::not_blank(
            &view.name,
            here.clone().field("name"),
            "name of the view",
            findings,
        );
        reference::not_blank(
            &view.target,
            here.clone().field("target"),
            "name of the target",
            findings,
        );
        if taken.contains(&view.name.trim()) {
            let detail = "is the name of a table or view of this sink already";
            findings.invalid(here.clone().field("name"), &view.name, detail);
        }
        taken.push(view.name.trim());
        let mut columns = POSTGRES_VIEW_COLUMNS.to_vec();
        for (index, column) in view.columns.iter().enumerate() {
            let path = here.clone().field("columns").index(index).field("name");
            reference::not_blank(&column.name, path.clone(), "name of the column", findings);
            if columns.contains(&column.name.trim()) {
                findings.invalid(
                    path,
                    &column.name,
                    "is the name of another column of this view",
                );
            }
            columns.push(column.name.trim());
        }
    }
}

fn check_object_store(store: &ObjectStore, findings: &mut Findings) {
    let at = |field: &str| Path::spec().field("objectStore").field(field);
    if let Some(days) = store.keep_days {
        if days < 1 {
            findings.invalid(at("keepDays"), days, "must be at least 1");
        }
        if store.partitioning != Some(Partitioning::Dated) {
            findings.forbidden(at("keepDays"), "is only for partitioning dated");
        }
    }
}

/// Whose container it is has to be known: by the block, or by the host of the endpoint.
fn check_azure_blob(blob: Option<&AzureBlob>, endpoint: Option<&str>, findings: &mut Findings) {
    let at = |field: &str| Path::spec().field("azureBlob").field(field);
    let account = blob.and_then(|blob| blob.account.as_deref());
    match account.map(str::trim) {
        Some(account) => {
            let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if account.is_empty() || account.len() > 63 || !account.chars().all(usual) {
                let detail = "must be lower-case letters and digits, as in the portal";
                findings.invalid(at("account"), account, detail);
            }
        }
        None if effective::azure_account(endpoint.unwrap_or_default()).is_some() => {}
        None => findings.required(
            at("account"),
            "name of the storage account, here or as https://<account>.blob.core.windows.net/<container>",
        ),
    }
}

fn check_layout(layout: &Layout, findings: &mut Findings) {
    let at = |field: &str| Path::spec().field("layout").field(field);
    let index = layout
        .index
        .as_ref()
        .and_then(|index| index.path_template.as_deref());
    let templates: [TemplateRule<'_>; 2] = [
        (
            layout.path_template.as_deref(),
            "pathTemplate",
            template::row_path,
        ),
        (index, "index.pathTemplate", template::document_path),
    ];
    for (text, field, rule) in templates {
        if let Some(text) = text
            && let Err(detail) = rule(text)
        {
            findings.invalid(at(field), text, detail);
        }
    }
    let longest = layout
        .filename
        .as_ref()
        .and_then(|filename| filename.max_segment_length);
    if let Some(length) = longest.filter(|length| *length < 1) {
        findings.invalid(
            at("filename.maxSegmentLength"),
            length,
            "must be at least 1",
        );
    }
}

fn snapshot_warnings(spec: &KollectSnapshotSinkSpec, findings: &mut Findings) {
    let type_ = SinkType::from(spec.type_);
    let common = &spec.common;
    let format = effective::format(type_, common, spec.object_store.as_ref());
    if spec
        .git
        .as_ref()
        .is_some_and(|git| git.push_policy == Some(PushPolicy::ForcePush))
    {
        findings.warn("spec.git.pushPolicy ForcePush behaves like Commit: nothing is ever forced, and the history of the branch stays");
    }
    let sink = Sink {
        type_,
        common,
        namespace: "",
        settings: &Settings::default(),
    };
    sink.common_warnings(findings);
    if let Some(compression) = effective::ignored_compression(type_, common, format) {
        findings.warn(format!(
            "spec.serialization.compression {} is ignored: {type_} sinks do not compress {} that way",
            compression.as_str(),
            format.as_str()
        ));
    }
    let store = spec.object_store.as_ref();
    let template = common
        .path_template
        .as_deref()
        .is_some_and(|template| !template.trim().is_empty());
    if format == Format::Parquet {
        findings.warn("parquet files hold typed columns plus the attributes as JSON");
        if template {
            findings.warn(
                "spec.pathTemplate has no effect on parquet: spec.objectStore.partitioning says where files stand",
            );
        }
    } else if let Some(store) = store {
        if template && store.partitioning.is_some() {
            findings.warn("spec.pathTemplate wins over spec.objectStore.partitioning");
        }
        if store.columns.is_some() {
            findings.warn("spec.objectStore.columns is only for parquet and has no effect here");
        }
    }
    let old_format = spec
        .object_store
        .as_ref()
        .is_some_and(|store| store.format.is_some());
    if common.serialization.is_some() && old_format {
        findings.warn("spec.serialization.format wins over spec.objectStore.format");
    }
    if common
        .endpoint
        .as_deref()
        .is_none_or(|endpoint| endpoint.trim().is_empty())
    {
        findings.warn("spec.endpoint is not set: nothing can be exported until it is");
    }
    if spec.type_ == SnapshotSinkType::Git || spec.type_ == SnapshotSinkType::Gitlab {
        let json_path = common
            .path_template
            .as_deref()
            .is_some_and(|template| template.trim().to_ascii_lowercase().ends_with(".json"));
        if format != Format::Json && json_path {
            findings.warn(format!(
                "spec.pathTemplate ends in .json but the format is {}; use {{extension}}",
                format.as_str()
            ));
        }
        let layout = common.layout.as_ref();
        if layout.is_some_and(|layout| layout.content == Some(LayoutContent::Manifest)) {
            findings.warn("spec.layout.content manifest needs profiles with export.mode Resource");
        }
        let mode = layout.and_then(|layout| layout.mode);
        if mode.is_some_and(|mode| mode != LayoutMode::Document) {
            findings.warn(
                "spec.layout.mode perResource and split always prune: files of vanished rows are removed",
            );
        }
    }
}
