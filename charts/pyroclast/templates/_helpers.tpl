{{/* Labels of every object. */}}
{{- define "pyroclast.labels" -}}
app.kubernetes.io/name: pyroclast
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.custom.common_labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The first of a list that is not empty, as YAML; nothing when all are. */}}
{{- define "pyroclast.first" -}}
{{- $found := false }}
{{- range . }}
{{- if and . (not $found) }}
{{- $found = true }}
{{- toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Image of a program, from (root, value prefix). */}}
{{- define "pyroclast.image" -}}
{{- $root := index . 0 }}
{{- $basic := $root.Values.basic }}
{{- $name := get $basic (printf "%s_image_name" (index . 1)) }}
{{- $tag := coalesce (get $basic (printf "%s_image_tag_version" (index . 1))) $basic.image_tag_version $root.Chart.AppVersion }}
{{- with $basic.image_registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $name }}:{{ $tag }}
{{- end }}

{{/* ServiceAccount and what it may do in the cluster and in the namespace of the release, from a dict: root, name, cluster, namespace. */}}
{{- define "pyroclast.account" -}}
{{- $root := .root }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "pyroclast.labels" $root | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels: {{- include "pyroclast.labels" $root | nindent 4 }}
rules:
{{ .cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}-role
  labels: {{- include "pyroclast.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
{{- if .namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "pyroclast.labels" $root | nindent 4 }}
rules:
{{ .namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}-role
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "pyroclast.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}

{{/* Leases of a service that works only while it leads. */}}
{{- define "pyroclast.leases" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, get, update]
{{- end }}
