//! Every metric with its type, labels and meaning.
//!
//! Names are as Prometheus shows them. A test holds this list against the page and against the
//! documentation: a metric that is missing in one of the three fails it.

/// How a number behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations by bucket.
    Histogram,
}

impl Kind {
    /// The word on the page.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// The names of its labels. Labelled series of profiles have further ones.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

impl Metric {
    /// The name under which samples of a counter are announced: OpenMetrics adds `_total` to each
    /// of them by itself.
    pub fn family(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }
}

macro_rules! catalogue {
    ($($id:ident = $name:literal, $kind:ident, [$($label:literal),*], $help:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            pub static $id: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// All metrics, in the order of the page.
        pub static ALL: &[&Metric] = &[$(&$id),+];
    };
}

catalogue! {
    RECONCILE_TOTAL = "kollect_reconcile_total", Counter, ["controller", "result"],
        "Passes of the control loops; a pass in which something could not be decided or that panicked is a failure, and so is a write that failed.";
    RECONCILE_DURATION = "kollect_reconcile_duration_seconds", Histogram, ["controller"],
        "Wall time of one pass of a control loop, which serves all objects of its kinds at once.";
    WORKQUEUE_DEPTH = "kollect_workqueue_depth", Gauge, ["controller"],
        "1 while a pass of a control loop is under way; changes that arrive meanwhile become one next pass, so nothing queues.";
    RECONCILE_ERRORS = "kollect_reconcile_errors_total", Counter, ["kind", "error_class"],
        "Extractions that failed (terminal), the beginnings of trouble of targets, and deliveries of inventories that failed, by class.";
    TASK_RESTARTS = "kollect_task_restarts_total", Counter, ["task"],
        "Long-lived tasks that ended or panicked and were started again, and objects whose reconcile panicked; anything but 0 is a flaw worth a report.";
    WATCH_MAP_ERRORS = "kollect_watch_map_list_errors_total", Counter, ["controller", "watch"],
        "Always 0: a change leads to a pass over what is known already, and nothing has to be listed for it.";
    FINGERPRINT_CACHE = "kollect_namespace_fingerprint_cache_total", Counter, ["controller", "result"],
        "Always 0: rows carry their own hashes, so there is no fingerprint to compute again.";
    COLLECT_ITEMS = "kollect_collect_items_total", Gauge, [],
        "Rows in the store.";
    STORE_BYTES = "kollect_store_bytes", Gauge, [],
        "Bytes of memory for rows, their index and their shared texts.";
    COLLECTED_OBJECTS = "kollect_collected_objects", Gauge, ["profile", "gvk", "target_namespace", "target_name"],
        "Rows of a target; the namespace of a cluster target is empty.";
    POLICY_ERRORS = "kollect_match_policy_errors_total", Counter, ["target_namespace", "target_name"],
        "Policies of a target's rules that could not be evaluated on an object, which then does not match.";
    INFORMER_OBJECTS = "kollect_informer_objects", Gauge, ["group", "version", "resource"],
        "Rows held for a watched resource; objects themselves are never kept.";
    INFORMER_CLUSTER_WIDE = "kollect_informer_cluster_wide_scope", Gauge, ["group", "version", "resource"],
        "1 when a watch of the resource covers all namespaces, 0 when single ones are watched.";
    INFORMER_RESYNC = "kollect_informer_resync_dispatches_total", Counter, ["group", "version", "resource"],
        "Always 0: without a cache of objects there is nothing to dispatch again periodically.";
    WATCH_INTERRUPTED = "kollect_watch_interrupted", Gauge, ["group", "version", "resource", "class"],
        "Watches of the resource that receive nothing at present, by sort of trouble.";
    NAMESPACE_MISMATCH = "kollect_collect_namespace_mismatch_total", Counter, ["group", "version", "resource"],
        "Targets that did not get an object because of its namespace, summed over objects.";
    WATCH_EVENTS = "kollect_watch_events_total", Counter, ["group", "version", "resource"],
        "Objects and deletions that arrived from the API server.";
    WATCH_BYTES = "kollect_watch_bytes_total", Counter, ["group", "version", "resource"],
        "Bytes of lists and watch streams that arrived from the API server.";
    WATCH_RECONNECTS = "kollect_watch_reconnects_total", Counter, ["group", "version", "resource"],
        "Watch requests made because the one before had ended.";
    WATCH_LISTINGS = "kollect_watch_listings_total", Counter, ["group", "version", "resource", "cause"],
        "Listings of all objects, by what made them necessary.";
    DISPATCH_DURATION = "kollect_collect_dispatch_duration_seconds", Histogram, [],
        "Time for one watch event: match, extract and store for all targets of the resource.";
    DISPATCH_QUEUE_DEPTH = "kollect_collect_dispatch_queue_depth", Gauge, [],
        "Always 0: events are handled as they are read, there is no queue between.";
    DISPATCH_BACKPRESSURE = "kollect_collect_dispatch_backpressure_total", Counter, [],
        "Always 0: without a queue the connection itself holds the API server back.";
    STATIC_REF_RESOLUTION = "kollect_static_ref_resolution_total", Counter, ["kind", "ref_type", "result"],
        "Resolutions of the profile of a cluster target, and of the sinks of inventories, counted when the result is new.";
    ACCESS_CACHE = "kollect_access_cache_total", Counter, ["result"],
        "Access reviews of our own rights: answered from memory (hit) or asked (miss).";
    API_IN_FLIGHT = "kollect_api_requests_in_flight", Gauge, ["kind"],
        "Requests to the API server whose answers have not been read to their end, and watches that are open.";
    API_WAITING = "kollect_api_requests_waiting", Gauge, ["kind"],
        "Requests to the API server that wait for their turn: of each kind there are only so many at a time.";
    EXPORT_DURATION = "kollect_export_duration_seconds", Histogram, ["sink_type"],
        "Wall time of one delivery to a sink, successful or not.";
    EXPORT_BYTES = "kollect_export_bytes_total", Counter, ["sink_type"],
        "Bytes of rows in deliveries that were accepted.";
    EXPORT_ROWS = "kollect_export_rows_total", Counter, ["sink_type", "change"],
        "Rows that deliveries wrote or removed at backends.";
    SINK_EXPORTS = "kollect_sink_exports_total", Counter, ["sink_type", "sink_namespace", "result"],
        "Deliveries; the namespace of the sink is given for cluster inventories, which may name any, and empty for others.";
    SINK_ERRORS = "kollect_sink_errors_total", Counter, ["sink_type", "reason"],
        "Deliveries that failed, by class.";
    EXPORT_SPILL_WARN = "kollect_export_spill_warn_total", Counter, [],
        "Deliveries of 1 MiB of rows or more.";
    EXPORT_SHARD_WARN = "kollect_export_shard_warn_total", Counter, [],
        "Always 0: there is no number of rows from which an inventory would have to be split.";
    EXPORT_DEBOUNCED = "kollect_export_debounced_total", Counter, ["controller"],
        "Deliveries that were not made because the sink holds the rows already.";
    CONNECTION_TEST = "kollect_sink_connection_test_total", Counter, ["type", "result"],
        "Probes of sinks, by the operator itself or through a KollectConnectionTest.";
    INVENTORY_ITEMS = "kollect_inventory_items_total", Gauge, [],
        "Rows that inventories select, added up over all inventories.";
    INVENTORIES = "kollect_inventories", Gauge, ["state"],
        "Inventories of both kinds, by whether all, some or none of their sinks hold the current rows.";
    WEBHOOKS_ENABLED = "kollect_webhooks_enabled", Gauge, [],
        "1 if this process serves admission webhooks, 0 if they are off and only schemas are checked.";
    WEBHOOK_CERTIFICATE_END = "kollect_webhook_certificate_end_seconds", Gauge, [],
        "When the serving certificate that the operator keeps itself ends, in seconds since 1970.";
    ADMISSION_REVIEWS = "kollect_admission_reviews_total", Counter, ["kind", "result"],
        "Objects that webhooks judged: allowed, warned (allowed with warnings), denied, malformed, or not_known because scopes could not be read.";
    ADMISSION_DURATION = "kollect_admission_duration_seconds", Histogram, [],
        "Time to read a request of the API server, judge the object and answer.";
    TARGET_READY = "kollect_target_ready", Gauge, ["target_namespace", "target_name", "profile"],
        "1 when the status of the target says Ready, 0 when it does not or says nothing; the namespace of a cluster target is empty.";
    TARGET_DEGRADED = "kollect_target_degraded", Gauge, ["target_namespace", "target_name", "reason"],
        "1 when the status of the target says Degraded, for this reason; 0 without a reason otherwise.";
    INVENTORY_SYNCED = "kollect_inventory_synced", Gauge, ["inventory_namespace", "inventory_name"],
        "1 when the status of the inventory says Synced: every sink holds the current rows; the namespace of a cluster inventory is empty.";
    INVENTORY_DEGRADED = "kollect_inventory_degraded", Gauge, ["inventory_namespace", "inventory_name", "reason"],
        "1 when the status of the inventory says Degraded, for this reason; 0 without a reason otherwise.";
    INVENTORY_SNAPSHOT_ITEMS = "kollect_inventory_snapshot_items", Gauge, ["inventory_namespace", "inventory_name"],
        "Rows of the inventory, as its status says.";
    INVENTORY_LAST_EXPORT = "kollect_inventory_last_export_timestamp_seconds", Gauge, ["inventory_namespace", "inventory_name"],
        "When the inventory was exported last, as its status says; an inventory at rest moves it every quarter of an hour at most.";
    CONDITIONS_OMITTED = "kollect_conditions_omitted", Gauge, ["kind"],
        "Objects beyond the first 1000 of a kind, which have no series of their own here; those in trouble come first.";
    WRITES_WAITING = "kollect_writes_waiting", Gauge, [],
        "Statuses and finalizers that wait to be written: the queue of the control loops.";
    CUSTOM_SERIES = "kollect_custom_resource_series", Gauge, ["profile", "gvk", "series", "target_namespace", "target_name"],
        "Sums over the rows of a target, as its profile defines them, and their number.";
    CUSTOM_LABELED_SERIES = "kollect_custom_resource_labeled_series", Gauge, ["profile", "gvk", "series", "target_namespace", "target_name"],
        "Sums over the rows of a target by the attributes that its profile names as labels.";
    CUSTOM_CAPPED = "kollect_custom_resource_labeled_series_capped_total", Counter, ["profile", "gvk", "series", "target_namespace", "target_name"],
        "Combinations of label values left out beyond the first 200, added up at each sampling.";
}
