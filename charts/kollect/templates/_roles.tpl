{{/* What roles hold. The rules themselves are in _rights.tpl, made from the table in the code; here is when they are granted. */}}

{{/* What is collected in namespaces. */}}
{{- define "kollect.collectRules" -}}
{{- if eq .Values.rbac.collect "everything" }}
{{ include "kollect.rights.everything" . }}
{{- else if eq .Values.rbac.collect "common" }}
{{ include "kollect.rights.commonNamespaced" . }}
{{- end }}
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What is collected that is in no namespace. */}}
{{- define "kollect.collectClusterRules" -}}
{{- if and (eq .Values.rbac.collect "everything") .Values.watchNamespaces }}
{{ include "kollect.rights.commonCluster" . }}
{{- else if eq .Values.rbac.collect "common" }}
{{ include "kollect.rights.commonCluster" . }}
{{- end }}
{{- with .Values.rbac.extraClusterRules }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Rights where our objects are. */}}
{{- define "kollect.servedRules" -}}
{{ include "kollect.rights.teams" . }}
{{ include "kollect.rights.events" . }}
{{- if .Values.tenantMode }}
{{ include "kollect.rights.namedNamespaces" . }}
{{- end }}
{{- if not .Values.rbac.secrets.namespaces }}
{{ include "kollect.secretRules" . }}
{{- end }}
{{- include "kollect.collectRules" . }}
{{- end }}

{{- define "kollect.secretRules" -}}
{{ include "kollect.rights.sinkSecrets" . }}
{{- if .Values.rbac.secrets.watch }}
{{ include "kollect.rights.followedSecrets" . }}
{{- end }}
{{- end }}

{{/* Rights that hold in the whole cluster. */}}
{{- define "kollect.clusterRules" -}}
{{ include "kollect.rights.platform" . }}
{{ include "kollect.rights.allNamespaces" . }}
{{ include "kollect.rights.definitions" . }}
{{- if include "kollect.secureMetrics" . }}
{{ include "kollect.rights.secureMetrics" . }}
{{- end }}
{{- if .Values.watchNamespaces }}
{{- /* Events of cluster kinds are in a namespace of their own. */}}
{{ include "kollect.rights.events" . }}
{{- else }}
{{ include "kollect.servedRules" . }}
{{- end }}
{{- include "kollect.collectClusterRules" . }}
{{- end }}

{{- define "kollect.subjects" -}}
- kind: ServiceAccount
  name: {{ include "kollect.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* A Role and its binding: kollect.role (dict "root" $ "name" … "namespace" … "rules" …) */}}
{{- define "kollect.role" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "kollect.labels" .root | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "kollect.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  {{- include "kollect.subjects" .root | nindent 2 }}
{{- end }}

{{/* The same for the whole cluster. */}}
{{- define "kollect.clusterRole" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "kollect.labels" .root | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "kollect.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  {{- include "kollect.subjects" .root | nindent 2 }}
  {{- with .subjects }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
