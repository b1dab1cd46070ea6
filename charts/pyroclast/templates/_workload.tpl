{{/*
Deployment (or StatefulSet, of members that divide the work) and Service of a program, from a dict:
  root, name (of the ServiceAccount and the Deployment), module (that is run), app (label), key (prefix of its values)
  container (its name), args, mounts, volumes (lists), annotations (a dict)
  port (of what it serves besides metrics, 0 for nothing), servicePort; metricsPort (0 when they are switched off)
  members (how many divide the work, 0 or 1 where none do)
  scheme (HTTPS where health is served with the certificate that is given to the program; empty for HTTP)
  alone (whether two may not run at the same time, not even during an upgrade)
  env (environment variables, a list)
  shutdownDelay (seconds in which a program that is asked to stop goes on, while its callers learn of it; 0 for none)
with as many replicas as asked for, kept apart and from going together.
*/}}
{{- define "pyroclast.workload" -}}
{{- $root := .root }}
{{- $custom := $root.Values.custom }}
{{- $key := .key }}
{{- $members := int .members }}
{{- $replicas := max $members (int (get $custom (printf "%s_replicas" $key))) }}
apiVersion: apps/v1
kind: {{ ternary "StatefulSet" "Deployment" (gt $members 1) }}
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .app }}
    {{- include "pyroclast.labels" $root | nindent 4 }}
    {{- with get $custom (printf "%s_labels" $key) }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  replicas: {{ $replicas }}
  {{- if gt $members 1 }}
  serviceName: {{ .name }}-service
  podManagementPolicy: Parallel
  {{- else if or .alone (and (not (has $key (list "admission" "board"))) (not $custom.leader_elect_enable)) }}
  # the old one ends before the new one starts: nothing else keeps two from working at the same time
  strategy:
    type: Recreate
  {{- end }}
  selector:
    matchLabels:
      app: {{ .app }}
      app.kubernetes.io/instance: {{ $root.Release.Name }}
  template:
    metadata:
      labels:
        app: {{ .app }}
        {{- include "pyroclast.labels" $root | nindent 8 }}
        {{- with get $custom (printf "%s_podLabels" $key) }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .annotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      {{- with $custom.priority_class_name }}
      priorityClassName: {{ . }}
      {{- end }}
      enableServiceLinks: false
      # the delay, the 30 s in which a program ends its work, and a little
      terminationGracePeriodSeconds: {{ add 35 .shutdownDelay }}
      {{- if and (gt $replicas 1) $custom.topology_spread }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: {{ $custom.topology_spread }}
        labelSelector:
          matchLabels:
            app: {{ .app }}
            app.kubernetes.io/instance: {{ $root.Release.Name }}
        matchLabelKeys: [{{ ternary "controller-revision-hash" "pod-template-hash" (gt $members 1) }}]
      {{- end }}
      {{- with $root.Values.basic.image_pull_secret }}
      imagePullSecrets:
      - name: {{ . }}
      {{- end }}
      {{- with include "pyroclast.first" (list (get $custom (printf "%s_sc" $key)) $custom.default_sc) }}
      securityContext: {{- . | nindent 8 }}
      {{- end }}
      {{- with include "pyroclast.first" (list (get $custom (printf "%s_affinity" $key)) $custom.default_affinity) }}
      affinity: {{- . | nindent 8 }}
      {{- end }}
      {{- with include "pyroclast.first" (list (get $custom (printf "%s_ns" $key)) $custom.default_ns) }}
      nodeSelector: {{- . | nindent 8 }}
      {{- end }}
      {{- with include "pyroclast.first" (list (get $custom (printf "%s_tolerations" $key)) $custom.default_tolerations) }}
      tolerations: {{- . | nindent 8 }}
      {{- end }}
      containers:
      - name: {{ .container }}
        image: {{ include "pyroclast.image" (list $root $key) }}
        imagePullPolicy: {{ $root.Values.basic.image_pull_policy }}
        command: [python, -m, {{ if $custom.reload_enable }}pyroclast.runtime.reload, {{ end }}{{ .module }}]
        args:
        {{- toYaml .args | nindent 8 }}
        {{- with .shutdownDelay }}
        - --shutdown-delay-duration={{ . }}s
        {{- end }}
        {{- include "pyroclast.commonArgs" (list $root $key) | trim | nindent 8 }}
        env:
        - name: KUBE_POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: HELM_RELEASE_NAME
          value: {{ $root.Release.Name }}
        {{- if gt $members 1 }}
        - name: MULTI_SCHEDULER_ENABLE
          value: "true"
        - name: SCHEDULER_NUM
          value: {{ $members | quote }}
        - name: SCHEDULER_POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- end }}
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with concat (default list $custom.default_env) (default list (get $custom (printf "%s_env" $key))) }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - name: healthz
          containerPort: 11251
        {{- if .port }}
        - name: {{ .container }}
          containerPort: {{ .port }}
        {{- end }}
        {{- if .metricsPort }}
        - name: metrics
          containerPort: {{ .metricsPort }}
        {{- end }}
        # waits inside of the container, as kubelet records a Warning for each probe that finds the program still loading
        startupProbe:
          exec:
            command: [python, -m, pyroclast.runtime.startup, "{{ default "HTTP" .scheme | lower }}://{{ default "localhost" $custom.bind_address }}:11251/readyz", "50"]
          timeoutSeconds: 60
          failureThreshold: 5
        livenessProbe:
          httpGet:
            path: /livez
            port: healthz
            {{- with .scheme }}
            scheme: {{ . }}
            {{- end }}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 3
        readinessProbe:
          httpGet:
            path: /readyz
            port: healthz
            {{- with .scheme }}
            scheme: {{ . }}
            {{- end }}
          periodSeconds: 5
          timeoutSeconds: 5
        {{- with include "pyroclast.first" (list (get $custom (printf "%s_main_csc" $key)) $custom.default_csc) }}
        securityContext: {{- . | nindent 10 }}
        {{- end }}
        {{- with get $custom (printf "%s_resources" $key) }}
        resources: {{- toYaml . | nindent 10 }}
        {{- end }}
        volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- with .mounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
      # keys are written here for a moment: memory, no disk
      - name: tmp
        emptyDir: {medium: Memory, sizeLimit: 16Mi}
      {{- with .volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- if and (gt $replicas 1) $custom.pdb_enable }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .app }}
    {{- include "pyroclast.labels" $root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app: {{ .app }}
      app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end }}
{{- if or .port .metricsPort }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}-service
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .app }}
    {{- include "pyroclast.labels" $root | nindent 4 }}
  {{- if .metricsPort }}
  annotations:
    prometheus.io/path: /metrics
    prometheus.io/port: {{ .metricsPort | quote }}
    prometheus.io/scrape: "true"
  {{- end }}
spec:
  type: ClusterIP
  {{- with $root.Values.service.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
  {{- end }}
  {{- with $root.Values.service.ipFamilies }}
  ipFamilies: {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    app: {{ .app }}
    app.kubernetes.io/instance: {{ $root.Release.Name }}
  ports:
  {{- if .port }}
  - name: {{ .container }}
    port: {{ .servicePort }}
    targetPort: {{ .container }}
  {{- end }}
  {{- if .metricsPort }}
  - name: metrics
    port: {{ .metricsPort }}
    targetPort: metrics
  {{- end }}
{{- end }}
{{- end }}
