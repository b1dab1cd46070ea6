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

{{- /*
Paths of the webhooks that leave the account of the controllers out, as a list in YAML: the controllers apply their rules in process. None
where expressions of the user choose namespaces: the controllers do not know these.
*/}}
{{- define "pyroclast.inProcessWebhooks" -}}
{{- $paths := list }}
{{- if and (include "pyroclast.installed" (list . "admission")) (not .Values.custom.webhooks_namespace_selector_expressions) }}
{{- $enabled := splitList "," (nospace .Values.custom.enabled_admissions) }}
{{- range $path := list "/podgroups/mutate" "/podgroups/validate" }}
{{- if has $path $enabled }}
{{- $paths = append $paths $path }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $paths }}
{{- end }}
