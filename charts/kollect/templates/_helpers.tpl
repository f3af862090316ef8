{{/* Names */}}
{{- define "kollect.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kollect.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* A name with a suffix that is never cut off: kollect.named (list . "suffix") */}}
{{- define "kollect.named" -}}
{{- $suffix := index . 1 }}
{{- $room := int (sub 62 (len $suffix)) }}
{{- printf "%s-%s" (include "kollect.fullname" (index . 0) | trunc $room | trimSuffix "-") $suffix }}
{{- end }}

{{- define "kollect.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kollect.named" (list . "controller-manager")) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "kollect.webhookService" -}}
{{- include "kollect.named" (list . "webhook-service") }}
{{- end }}

{{- define "kollect.webhookConfiguration" -}}
{{- include "kollect.named" (list . "validating-webhook-configuration") }}
{{- end }}

{{/* The Secret of the webhook's certificates, whoever makes them. */}}
{{- define "kollect.webhookSecret" -}}
{{- if .Values.webhooks.certManager.secretName }}
{{- .Values.webhooks.certManager.secretName }}
{{- else if .Values.webhooks.certManager.create }}
{{- "webhook-server-cert" }}
{{- else }}
{{- include "kollect.named" (list . "webhook-cert") }}
{{- end }}
{{- end }}

{{- define "kollect.lease" -}}
3274ac8a.kollect.dev
{{- end }}

{{- define "kollect.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default (printf "v%s" .Chart.AppVersion) .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Labels */}}
{{- define "kollect.selectorLabels" -}}
app.kubernetes.io/name: kollect
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end }}

{{- define "kollect.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "kollect.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Switches that depend on tenantMode where nothing is chosen. Empty text is "no". */}}
{{- define "kollect.unlessTenant" -}}
{{- $chosen := index . 1 }}
{{- if kindIs "bool" $chosen }}
{{- if $chosen }}true{{ end }}
{{- else if not (index . 0).Values.tenantMode }}true{{ end }}
{{- end }}

{{- define "kollect.crds" -}}
{{- include "kollect.unlessTenant" (list . .Values.crds.enabled) }}
{{- end }}

{{- define "kollect.webhooks" -}}
{{- include "kollect.unlessTenant" (list . .Values.webhooks.enabled) }}
{{- end }}

{{- define "kollect.aggregate" -}}
{{- include "kollect.unlessTenant" (list . .Values.rbac.aggregate) }}
{{- end }}

{{- define "kollect.secureMetrics" -}}
{{- if .Values.metrics.enabled }}
{{- include "kollect.unlessTenant" (list . .Values.metrics.secure) }}
{{- end }}
{{- end }}

{{/* Whether the certificates of the webhook come as files. */}}
{{- define "kollect.webhookFiles" -}}
{{- if and (include "kollect.webhooks" .) (or .Values.webhooks.certManager.create .Values.webhooks.certManager.secretName) }}true{{ end }}
{{- end }}

{{/* Whether the operator makes them. */}}
{{- define "kollect.webhookOwn" -}}
{{- if and (include "kollect.webhooks" .) (not (include "kollect.webhookFiles" .)) }}true{{ end }}
{{- end }}

{{- define "kollect.webhookFilesAt" -}}
/tmp/k8s-webhook-server/serving-certs
{{- end }}

{{/* The port of an address such as ":8443" or "0.0.0.0:8443". */}}
{{- define "kollect.port" -}}
{{- regexFind "[0-9]+$" . }}
{{- end }}

{{- define "kollect.resources" -}}
{{- if eq .Values.resourcesProfile "large" }}
{{- toYaml .Values.largeCluster.resources }}
{{- else }}
{{- toYaml .Values.resources }}
{{- end }}
{{- end }}

{{/* Whether a monitoring kind is rendered: kollect.monitoring (list . .Values.metrics.x "Kind") */}}
{{- define "kollect.monitoring" -}}
{{- $root := index . 0 }}
{{- $values := index . 1 }}
{{- if and $root.Values.metrics.enabled $values.enabled }}
{{- $there := $root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}
{{- if and (eq $values.renderMode "failIfMissing") (not $there) }}
{{- fail (printf "%s is wanted, but monitoring.coreos.com/v1 is not installed: install the Prometheus operator first, or set its renderMode to skipIfMissing" (index . 2)) }}
{{- end }}
{{- if or $there (ne $values.renderMode "skipIfMissing") }}true{{ end }}
{{- end }}
{{- end }}

{{/* Combinations that cannot work are refused before anything is installed. */}}
{{- define "kollect.validate" -}}
{{- if and .Values.tenantMode (not .Values.watchNamespaces) }}
{{- fail "tenantMode needs watchNamespaces: name the namespaces that this installation is for, such as --set 'watchNamespaces={team-a}'" }}
{{- end }}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) }}
{{- fail "replicaCount above 1 needs leaderElection.enabled: otherwise every replica exports" }}
{{- end }}
{{- if and (include "kollect.webhooks" .) .Values.webhooks.certManager.secretName (not .Values.webhooks.certManager.create) (not .Values.webhooks.caBundle) (not .Values.webhooks.annotations) }}
{{- fail "webhooks.certManager.secretName without webhooks.certManager.create needs webhooks.caBundle (who signed that certificate, in PEM) or an annotation in webhooks.annotations by which another tool fills it in" }}
{{- end }}
{{- if not (get (index (ternary .Values.largeCluster.resources .Values.resources (eq .Values.resourcesProfile "large")) "limits" | default dict) "ephemeral-storage") }}
{{- fail "resources.limits.ephemeral-storage must be set: Git mirrors and files of object stores are made in the pod's temporary directory" }}
{{- end }}
{{- end }}

{{/* The arguments of the operator, one per line. */}}
{{- define "kollect.args" -}}
- operator
{{- if .Values.leaderElection.enabled }}
- --leader-elect
{{- with .Values.leaderElection.leaseDuration }}
- --leader-elect-lease-duration={{ . }}
{{- end }}
{{- with .Values.leaderElection.renewDeadline }}
- --leader-elect-renew-deadline={{ . }}
{{- end }}
{{- with .Values.leaderElection.retryPeriod }}
- --leader-elect-retry-period={{ . }}
{{- end }}
{{- end }}
- --health-probe-bind-address={{ .Values.healthProbe.bindAddress }}
{{- if .Values.metrics.enabled }}
- --metrics-bind-address={{ .Values.metrics.bindAddress }}
- --metrics-secure={{ if include "kollect.secureMetrics" . }}true{{ else }}false{{ end }}
{{- if .Values.metrics.certificateSecret }}
- --metrics-cert-path=/etc/kollect/metrics-certs
{{- end }}
{{- else }}
- --metrics-bind-address=0
{{- end }}
{{- with .Values.controller.maxConcurrentReconciles }}
{{- if .target }}
- --max-concurrent-reconciles-target={{ .target }}
{{- end }}
{{- if .inventory }}
- --max-concurrent-reconciles-inventory={{ .inventory }}
{{- end }}
{{- end }}
{{- with .Values.controller.collectDispatchWorkers }}
- --collect-dispatch-workers={{ int . }}
{{- end }}
{{- with .Values.controller.collectDispatchQueueSize }}
- --collect-dispatch-queue-size={{ int . }}
{{- end }}
{{- with .Values.controller.informerResyncPeriod }}
- --informer-resync-period={{ . }}
{{- end }}
- --collect-metrics-sample-interval={{ .Values.controller.collectMetricsSampleInterval }}
{{- if include "kollect.webhooks" . }}
- --validating-webhooks-enabled=true
- --webhook-bind-address={{ .Values.webhooks.bindAddress }}
{{- if include "kollect.webhookFiles" . }}
- --webhook-cert-dir={{ include "kollect.webhookFilesAt" . }}
{{- else }}
- --webhook-service-name={{ include "kollect.webhookService" . }}
- --webhook-secret-name={{ include "kollect.webhookSecret" . }}
- --webhook-configuration-name={{ include "kollect.webhookConfiguration" . }}
{{- end }}
{{- with .Values.webhooks.targetAuthorization }}
- --target-authorization={{ . }}
{{- end }}
{{- if kindIs "bool" .Values.tenancy.denyClusterKinds }}
- --deny-cluster-kinds={{ .Values.tenancy.denyClusterKinds }}
{{- end }}
{{- else }}
- --validating-webhooks-enabled=false
{{- end }}
- --zap-encoder={{ .Values.logging.format }}
- --zap-log-level={{ .Values.logging.level }}
{{- with .Values.controller.reconcileRateLimit }}
- --reconcile-rate-limit={{ . }}
{{- end }}
{{- with .Values.controller.targetCountResync }}
- --target-count-resync={{ . }}
{{- end }}
{{- with .Values.controller.maxRowBytes }}
- --max-row-bytes={{ int64 . }}
{{- end }}
{{- with .Values.export.timeout }}
- --export-timeout={{ . }}
{{- end }}
{{- with .Values.export.parallel }}
- --parallel-exports={{ int . }}
{{- end }}
{{- with .Values.export.maxBytes }}
- --max-export-bytes={{ int64 . }}
{{- end }}
{{- with .Values.export.cleanupTimeout }}
- --cleanup-timeout={{ . }}
{{- end }}
{{- if .Values.pprof.enabled }}
- --enable-pprof
- --pprof-bind-address={{ .Values.pprof.bindAddress }}
{{- end }}
{{- with .Values.featureGates.inventoryHttp }}
{{- if .enabled }}
- --inventory-http-enabled
- --inventory-http-port={{ int .port }}
- --inventory-auth-mode={{ .authMode }}
{{- end }}
{{- end }}
{{- if .Values.tenantMode }}
- --tenant-mode
{{- end }}
{{- if .Values.allowPrivateSinks }}
- --allow-private-sinks
{{- end }}
{{- with .Values.allowSinkNetworks }}
- --allow-sink-networks={{ join "," . }}
{{- end }}
{{- with .Values.allowSinkHosts }}
- --allow-sink-hosts={{ join "," . }}
{{- end }}
{{- with .Values.tenancy.secretNamespaces }}
- --secret-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.watchNamespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.defaultIncludedNamespaces }}
- --default-included-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.defaultExcludedNamespaces }}
- --default-excluded-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.scrubKeys }}
- --scrub-keys={{ join "," . }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Definitions belong to no workload. */}}
{{- define "kollect.crdLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: kollect
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}
