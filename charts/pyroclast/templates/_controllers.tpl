{{/* The list for --controllers, which both programs of controllers read. */}}
{{- define "pyroclast.controllers.list" -}}
{{- $list := default "*,-sharding-controller" (nospace (default "" .Values.custom.controller_enabled_controllers)) }}
{{- if eq .Values.custom.hypernode_controller_mode "disabled" }}
{{- $kept := list }}
{{- range splitList "," $list }}
{{- if not (has . (list "hyperNode-controller" "+hyperNode-controller" "-hyperNode-controller")) }}
{{- $kept = append $kept . }}
{{- end }}
{{- end }}
{{- $list = join "," (append $kept "-hyperNode-controller") }}
{{- end }}
{{- $list }}
{{- end }}

{{/* Whether any controller of a list of names runs, from (root, names): the first entry that names it decides, then a star. */}}
{{- define "pyroclast.controllers.any" -}}
{{- $entries := compact (splitList "," (include "pyroclast.controllers.list" (index . 0))) }}
{{- $any := false }}
{{- range $name := index . 1 }}
{{- $decided := "" }}
{{- range $entry := $entries }}
{{- if not $decided }}
{{- if has $entry (list $name (printf "+%s" $name)) }}
{{- $decided = "on" }}
{{- else if eq $entry (printf "-%s" $name) }}
{{- $decided = "off" }}
{{- end }}
{{- end }}
{{- end }}
{{- if or (eq $decided "on") (and (not $decided) (has "*" $entries)) }}
{{- $any = true }}
{{- end }}
{{- end }}
{{- if $any }}true{{ end }}
{{- end }}

{{/* Whether a program is installed, from (root, key): it is switched on and has something to do. */}}
{{- define "pyroclast.installed" -}}
{{- $root := index . 0 }}
{{- $custom := $root.Values.custom }}
{{- $key := index . 1 }}
{{- if eq $key "admission" }}
{{- if and $custom.admission_enable (compact (splitList "," (nospace (default "" $custom.enabled_admissions)))) }}true{{ end }}
{{- else if eq $key "controller" }}
{{- $names := list "job-controller" "queue-controller" "pg-controller" "gc-controller" "cronjob-controller" "hyperNode-controller" "colocation-config-controller" "sharding-controller" "hyperjob-controller" }}
{{- if $custom.controller_enable }}{{ include "pyroclast.controllers.any" (list $root $names) }}{{ end }}
{{- else if eq $key "jobflow" }}
{{- $names := list "jobflow-controller" "jobtemplate-controller" }}
{{- if and $custom.controller_enable $custom.jobflow_enable }}{{ include "pyroclast.controllers.any" (list $root $names) }}{{ end }}
{{- else if eq $key "board" }}
{{- if $custom.board_enable }}true{{ end }}
{{- else if eq $key "recorder" }}
{{- if $custom.recorder_enable }}true{{ end }}
{{- else if $custom.scheduler_enable }}true{{ end }}
{{- end }}

{{- /* what Jobs may have: the same flags for admission and for all that creates Jobs */}}
{{- define "pyroclast.jobLimits" -}}
- --max-pods-per-job={{ int .Values.custom.max_pods_per_job }}
- --allow-job-placement={{ .Values.custom.allow_job_placement }}
{{- end }}

{{- /* whether nodes are divided among schedulers: not by default */}}
{{- define "pyroclast.sharding" -}}
{{- include "pyroclast.controllers.any" (list . (list "sharding-controller")) }}
{{- end }}
