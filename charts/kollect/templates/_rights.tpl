{{/* Made from crates/api/src/rights by `cargo xtask codegen`; not edited by hand. */}}

{{- define "kollect.kinds" -}}
kollectclusterinventory: kollectclusterinventories
kollectclusterscope: kollectclusterscopes
kollectclustertarget: kollectclustertargets
kollectconnectiontest: kollectconnectiontests
kollectdatabasesink: kollectdatabasesinks
kollecteventsink: kollecteventsinks
kollectinventory: kollectinventories
kollectprofile: kollectprofiles
kollectscope: kollectscopes
kollectsnapshotsink: kollectsnapshotsinks
kollecttarget: kollecttargets
{{- end }}

{{- define "kollect.rights.teams" -}}
- apiGroups: ["kollect.dev"]
  resources: ["kollectconnectiontests", "kollectdatabasesinks", "kollecteventsinks", "kollectinventories", "kollectprofiles", "kollectscopes", "kollectsnapshotsinks", "kollecttargets"]
  verbs: ["list", "watch"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectinventories", "kollecttargets"]
  verbs: ["patch"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectdatabasesinks", "kollecteventsinks", "kollectsnapshotsinks"]
  verbs: ["patch"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectconnectiontests"]
  verbs: ["patch", "delete"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectconnectiontests/status", "kollectdatabasesinks/status", "kollecteventsinks/status", "kollectinventories/status", "kollectsnapshotsinks/status", "kollecttargets/status"]
  verbs: ["patch"]
{{- end }}

{{- define "kollect.rights.platform" -}}
- apiGroups: ["kollect.dev"]
  resources: ["kollectclusterinventories", "kollectclusterscopes", "kollectclustertargets"]
  verbs: ["list", "watch"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectclusterinventories", "kollectclustertargets"]
  verbs: ["patch"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectclusterinventories/status", "kollectclustertargets/status"]
  verbs: ["patch"]
{{- end }}

{{- define "kollect.rights.sinkSecrets" -}}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["get"]
{{- end }}

{{- define "kollect.rights.followedSecrets" -}}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "kollect.rights.events" -}}
- apiGroups: [""]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- end }}

{{- define "kollect.rights.election" -}}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: [{{ include "kollect.lease" . | quote }}]
  verbs: ["get", "update"]
{{- end }}

{{- define "kollect.rights.namedNamespaces" -}}
- apiGroups: [""]
  resources: ["namespaces"]
  verbs: ["get"]
{{- end }}

{{- define "kollect.rights.allNamespaces" -}}
- apiGroups: [""]
  resources: ["namespaces"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "kollect.rights.definitions" -}}
- apiGroups: ["apiextensions.k8s.io"]
  resources: ["customresourcedefinitions"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "kollect.rights.secureMetrics" -}}
- apiGroups: ["authentication.k8s.io"]
  resources: ["tokenreviews"]
  verbs: ["create"]
- apiGroups: ["authorization.k8s.io"]
  resources: ["subjectaccessreviews"]
  verbs: ["create"]
{{- end }}

{{- define "kollect.rights.targetAuthorization" -}}
- apiGroups: ["authorization.k8s.io"]
  resources: ["subjectaccessreviews"]
  verbs: ["create"]
{{- end }}

{{- define "kollect.rights.webhookCertificates" -}}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["create"]
- apiGroups: [""]
  resources: ["secrets"]
  resourceNames: [{{ include "kollect.webhookSecret" . | quote }}]
  verbs: ["get", "update"]
{{- end }}

{{- define "kollect.rights.webhookConfiguration" -}}
- apiGroups: ["admissionregistration.k8s.io"]
  resources: ["validatingwebhookconfigurations"]
  resourceNames: [{{ include "kollect.webhookConfiguration" . | quote }}]
  verbs: ["get", "update"]
{{- end }}

{{- define "kollect.rights.commonNamespaced" -}}
- apiGroups: [""]
  resources: ["configmaps", "endpoints", "limitranges", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "serviceaccounts", "services"]
  verbs: ["list", "watch"]
- apiGroups: ["apps"]
  resources: ["daemonsets", "deployments", "replicasets", "statefulsets"]
  verbs: ["list", "watch"]
- apiGroups: ["autoscaling"]
  resources: ["horizontalpodautoscalers"]
  verbs: ["list", "watch"]
- apiGroups: ["batch"]
  resources: ["cronjobs", "jobs"]
  verbs: ["list", "watch"]
- apiGroups: ["discovery.k8s.io"]
  resources: ["endpointslices"]
  verbs: ["list", "watch"]
- apiGroups: ["networking.k8s.io"]
  resources: ["ingresses", "networkpolicies"]
  verbs: ["list", "watch"]
- apiGroups: ["policy"]
  resources: ["poddisruptionbudgets"]
  verbs: ["list", "watch"]
- apiGroups: ["rbac.authorization.k8s.io"]
  resources: ["rolebindings", "roles"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "kollect.rights.commonCluster" -}}
- apiGroups: [""]
  resources: ["namespaces", "nodes", "persistentvolumes"]
  verbs: ["list", "watch"]
- apiGroups: ["admissionregistration.k8s.io"]
  resources: ["mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"]
  verbs: ["list", "watch"]
- apiGroups: ["apiextensions.k8s.io"]
  resources: ["customresourcedefinitions"]
  verbs: ["list", "watch"]
- apiGroups: ["apiregistration.k8s.io"]
  resources: ["apiservices"]
  verbs: ["list", "watch"]
- apiGroups: ["networking.k8s.io"]
  resources: ["ingressclasses"]
  verbs: ["list", "watch"]
- apiGroups: ["node.k8s.io"]
  resources: ["runtimeclasses"]
  verbs: ["list", "watch"]
- apiGroups: ["rbac.authorization.k8s.io"]
  resources: ["clusterrolebindings", "clusterroles"]
  verbs: ["list", "watch"]
- apiGroups: ["scheduling.k8s.io"]
  resources: ["priorityclasses"]
  verbs: ["list", "watch"]
- apiGroups: ["storage.k8s.io"]
  resources: ["csidrivers", "csinodes", "storageclasses", "volumeattachments"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "kollect.rights.everything" -}}
- apiGroups: ["*"]
  resources: ["*"]
  verbs: ["list", "watch"]
{{- end }}

{{- define "kollect.rights.metricsReader" -}}
- nonResourceURLs: ["/metrics"]
  verbs: ["get"]
{{- end }}

{{- define "kollect.rights.view" -}}
- apiGroups: ["kollect.dev"]
  resources: ["kollectclusterinventories", "kollectclusterscopes", "kollectclustertargets", "kollectconnectiontests", "kollectdatabasesinks", "kollecteventsinks", "kollectinventories", "kollectprofiles", "kollectscopes", "kollectsnapshotsinks", "kollecttargets"]
  verbs: ["get", "list", "watch"]
{{- end }}

{{- define "kollect.rights.edit" -}}
- apiGroups: ["kollect.dev"]
  resources: ["kollectconnectiontests", "kollectdatabasesinks", "kollecteventsinks", "kollectinventories", "kollectprofiles", "kollectsnapshotsinks", "kollecttargets"]
  verbs: ["create", "delete", "deletecollection", "patch", "update"]
{{- end }}

{{- define "kollect.rights.admin" -}}
- apiGroups: ["kollect.dev"]
  resources: ["kollectscopes"]
  verbs: ["create", "delete", "deletecollection", "patch", "update"]
- apiGroups: ["kollect.dev"]
  resources: ["kollectconnectiontests/status", "kollectdatabasesinks/status", "kollecteventsinks/status", "kollectinventories/status", "kollectsnapshotsinks/status", "kollecttargets/status"]
  verbs: ["patch"]
{{- end }}
