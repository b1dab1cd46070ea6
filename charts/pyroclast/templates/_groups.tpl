{{/*
Which pods the webhook that changes pods has to see, as a list of CEL expressions of which any may hold: those that ask by an annotation,
and those that the resource groups of the configuration select. No other pod waits for the admission service.
*/}}
{{- define "pyroclast.podAsks" -}}
{{- $annotations := list "volcano.sh/resource-group" "scheduling.volcano.sh/queue-allocation-gate" }}
{{- $namespaces := list }}
{{- range (include "pyroclast.configuration" (list . "admission") | fromYaml).resourceGroups }}
{{- $object := default dict .object }}
{{- if eq (default "" $object.key) "namespace" }}
{{- $namespaces = concat $namespaces (default list $object.value) }}
{{- else }}
{{- range default list $object.value }}
{{- range splitList "\n" (toString .) }}
{{- if contains ":" . }}
{{- $annotations = append $annotations (trimAll "\"'" (trim (index (splitList ":" .) 0))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $any := list }}
{{- range uniq $annotations }}
{{- $any = append $any (printf "%s in object.metadata.annotations" (squote .)) }}
{{- end }}
- {{ printf "has(object.metadata.annotations) && (%s)" (join " || " $any) | toJson }}
{{- with uniq $namespaces }}
- {{ printf "request.namespace in ['%s']" (join "', '" .) | toJson }}
{{- end }}
{{- end }}

{{- /* Paths of all webhooks, separated by commas. Those of Commands are always among them: the controllers execute none unmarked. */}}
{{- define "pyroclast.webhookPaths" -}}
{{- $paths := compact (splitList "," (nospace (default "" .Values.custom.enabled_admissions))) }}
{{- $always := list "/commands/mutate" "/commands/validate" }}
{{- if eq .Values.webhook.queueAccess "checked" }}
{{- $always = concat $always (list "/jobs/validate" "/cronjobs/validate" "/podgroups/validate" "/hyperjobs/validate" "/jobflows/validate" "/jobtemplates/validate" "/workloads/validate") }}
{{- end }}
{{- if $paths }}{{ join "," (uniq (concat $paths $always)) }}{{ end }}
{{- end }}

{{- /*
Paths of the webhooks that leave out what a program (controller or jobflow) creates, as a list in YAML: it applies their rules in process.
None where expressions of the user choose namespaces: the program does not know these. Those of Jobs not where admission alone is told of
job plugins or of what pods may have; that which changes pods not where resource groups are configured, which admission alone knows.
*/}}
{{- define "pyroclast.inProcessWebhooks" -}}
{{- $root := index . 0 }}
{{- $program := index . 1 }}
{{- $custom := $root.Values.custom }}
{{- $paths := list }}
{{- if and (include "pyroclast.installed" (list $root "admission")) (include "pyroclast.installed" (list $root $program)) (not $custom.webhooks_namespace_selector_expressions) }}
{{- $enabled := splitList "," (include "pyroclast.webhookPaths" $root) }}
{{- $known := ternary (list "/podgroups/mutate" "/podgroups/validate" "/pods/validate") (list "/commands/mutate" "/commands/validate") (eq $program "controller") }}
{{- if and (eq $program "controller") (not (include "pyroclast.configuration" (list $root "admission") | fromYaml).resourceGroups) }}
{{- $known = append $known "/pods/mutate" }}
{{- end }}
{{- if not (or (nospace (default "" $custom.job_plugins)) (contains "PodLevelResources" (default "" $custom.admission_feature_gates))) }}
{{- $known = concat (list "/jobs/mutate" "/jobs/validate") $known }}
{{- end }}
{{- range $path := $known }}
{{- if has $path $enabled }}
{{- $paths = append $paths $path }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $paths }}
{{- end }}

{{- /*
CEL: whether the webhook of a path has to see a request, as no program of ours has applied its rules. A program names the writer
(fieldManager) only of what it has checked; so what the release before this one creates, while it is being replaced, is seen.
*/}}
{{- define "pyroclast.notChecked" -}}
{{- $root := index . 0 }}
{{- $path := index . 1 }}
{{- $users := list }}
{{- range $program, $name := dict "controller" "controllers" "jobflow" "jobflow" }}
{{- if has $path (include "pyroclast.inProcessWebhooks" (list $root $program) | fromYamlArray) }}
{{- $users = append $users (printf "'system:serviceaccount:%s:%s-%s'" $root.Release.Namespace $root.Release.Name $name) }}
{{- end }}
{{- end }}
{{- with $users }}
{{- printf "request.operation != 'CREATE' || !(request.userInfo.username in [%s]) || !has(request.options.fieldManager)" (join ", " .) }}
{{- end }}
{{- end }}
