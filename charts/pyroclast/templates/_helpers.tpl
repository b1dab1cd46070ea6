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

{{/* Image of a program, from (root, value prefix); images of Volcano do not understand our arguments, so ours are taken for them. */}}
{{- define "pyroclast.image" -}}
{{- $root := index . 0 }}
{{- $basic := $root.Values.basic }}
{{- $name := get $basic (printf "%s_image_name" (index . 1)) }}
{{- if hasPrefix "volcanosh/vc-" $name }}
{{- $name = get (dict "admission" "pyroclast/admission" "board" "pyroclast/board" "controller" "pyroclast/job-controller" "jobflow" "pyroclast/jobflow-controller" "recorder" "pyroclast/recorder" "scheduler" "pyroclast/scheduler") (index . 1) }}
{{- end }}
{{- $tag := coalesce (get $basic (printf "%s_image_tag_version" (index . 1))) $basic.image_tag_version $root.Chart.AppVersion }}
{{- with $basic.image_registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $name }}:{{ $tag }}
{{- with get $basic (printf "%s_image_digest" (index . 1)) }}@{{ . }}{{ end }}
{{- end }}

{{/* Text of the configuration of a program, from (root, key): the override, else the file of this chart. */}}
{{- define "pyroclast.configuration" -}}
{{- $root := index . 0 }}
{{- $key := index . 1 }}
{{- $file := get $root.Values.basic (printf "%s_config_file" $key) }}
{{- $text := get $root.Values.custom (printf "%s_config_override" $key) }}
{{- if not $text }}
{{- $text = $root.Files.Get $file }}
{{- if not $text }}
{{- $files := list }}
{{- range $path, $_ := $root.Files.Glob "config/*" }}
{{- $files = append $files $path }}
{{- end }}
{{- fail (printf "basic.%s_config_file is %q, which is no file of this chart; name one of %s, or give the text in custom.%s_config_override" $key $file (join ", " $files) $key) }}
{{- end }}
{{- end }}
{{- $text }}
{{- end }}

{{/* "true" where gangs are placed before their pods exist, which needs one scheduler that knows all nodes. */}}
{{- define "pyroclast.placesBeforePods" -}}
{{- $custom := .Values.custom }}
{{- $wanted := toString $custom.place_before_pods }}
{{- $knowsAll := and (eq (int $custom.scheduler_members) 1) (eq (default "none" $custom.scheduler_sharding_mode) "none") }}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") $knowsAll) }}true{{ end }}
{{- end }}

{{/* Flags that every program takes, as a list in YAML, from (root, key). */}}
{{- define "pyroclast.commonArgs" -}}
{{- $custom := (index . 0).Values.custom }}
{{- $level := get $custom (printf "%s_log_level" (index . 1)) | toString }}
- --enable-healthz=true
- --healthz-address={{ $custom.bind_address }}:11251
- --log-format=json
{{- if regexMatch "^[0-9]+$" $level }}
- -v={{ $level }}
{{- else }}
- --log-level={{ default $custom.log_level $level }}
{{- end }}
{{- with $custom.otel_endpoint }}
- --otel-endpoint={{ . }}
{{- end }}
{{- with get $custom (printf "%s_extra_args" (index . 1)) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Name of the Lease of a service, from (root, key). */}}
{{- define "pyroclast.lease" -}}
{{- $names := dict "controller" "vc-controller-manager" "jobflow" "pyroclast-jobflow-controller" "recorder" "pyroclast-recorder" "scheduler" "volcano" }}
{{- default (get $names (index . 1)) (get (index . 0).Values.custom (printf "%s_lease_name" (index . 1))) }}
{{- end }}

{{/* The Lease under which Volcano does the work of a service, from (root, key): NAMESPACE/NAME, empty where there is none to wait for. */}}
{{- define "pyroclast.predecessor" -}}
{{- $root := index . 0 }}
{{- $names := dict "controller" "vc-controller-manager" "jobflow" "vc-controller-manager" "scheduler" (include "pyroclast.lease" (list $root "scheduler")) }}
{{- $namespace := $root.Values.custom.wait_for_volcano_in }}
{{- if and $namespace (hasKey $names (index . 1)) (ne $namespace $root.Release.Namespace) }}
{{- printf "%s/%s" $namespace (get $names (index . 1)) }}
{{- end }}
{{- end }}

{{/* The rule by which a service may read the Lease of its predecessor, from (root, key). */}}
{{- define "pyroclast.predecessorRule" -}}
{{- with include "pyroclast.predecessor" . }}
# whether Volcano is still at work
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ splitList "/" . | last }}]
  verbs: [get]
{{- end }}
{{- if and (index . 0).Values.custom.wait_for_volcano_in (ne (index . 1) "recorder") }}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{/* Flags of a service that elects who works, as a list in YAML, from (root, key, prefix of the API limits). */}}
{{- define "pyroclast.electionArgs" -}}
{{- $root := index . 0 }}
{{- $custom := $root.Values.custom }}
- --leader-elect={{ $custom.leader_elect_enable }}
- --leader-elect-resource-namespace={{ $root.Release.Namespace }}
- --leader-elect-resource-name={{ include "pyroclast.lease" (list $root (index . 1)) }}
{{- with include "pyroclast.predecessor" (list $root (index . 1)) }}
- --leader-elect-wait-for={{ . }}
{{- end }}
{{- if and $custom.wait_for_volcano_in (ne (index . 1) "recorder") }}
- --leader-elect-wait-for-app={{ ternary "volcano-scheduler" "volcano-controller" (eq (index . 1) "scheduler") }}
{{- end }}
{{- $shards := get $custom (printf "%s_shards" (index . 1)) | int }}
{{- if gt $shards 1 }}
- --leader-elect-shards={{ $shards }}
{{- end }}
- --kube-api-qps={{ get $custom (printf "%s_kube_api_qps" (index . 2)) }}
- --kube-api-burst={{ get $custom (printf "%s_kube_api_burst" (index . 2)) }}
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

{{/* Whether the admission service writes its CA into the webhook configurations; else cert-manager does. */}}
{{- define "pyroclast.injectsAuthority" -}}
{{- if or (eq .Values.webhook.certificates "self-signed") (not (hasKey .Values.webhook.annotations "cert-manager.io/inject-ca-from")) }}yes{{ end }}
{{- end }}

{{/* The names of our scheduler, as a list in CEL or in a program has them between its first and its last quote. */}}
{{- define "pyroclast.schedulers" -}}
{{- prepend .Values.custom.further_scheduler_names (default "volcano" .Values.custom.scheduler_name) | join "', '" }}
{{- end }}

{{/* The flags that name our scheduler, as a YAML list; empty for the default. */}}
{{- define "pyroclast.schedulerFlags" -}}
{{- if or .Values.custom.scheduler_name .Values.custom.further_scheduler_names }}
{{- range prepend .Values.custom.further_scheduler_names (default "volcano" .Values.custom.scheduler_name) }}
- --scheduler-name={{ . }}
{{- end }}
{{- end }}
{{- end }}
