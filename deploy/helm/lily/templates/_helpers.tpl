{{- define "lily.name" -}}
{{- if contains "lily" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "lily-%s" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "lily.selector" -}}
app.kubernetes.io/name: lily
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lily.labels" -}}
{{ include "lily.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
lily/tenancy: {{ .Values.tenancy.mode }}
{{- with .Values.tenancy.tenant }}
lily/tenant: {{ . }}
{{- end }}
{{- end }}

{{- define "lily.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "lily.env" -}}
- name: LILY_DATABASE
  valueFrom: { secretKeyRef: { name: {{ .Values.secret.name }}, key: database } }
{{- if .Values.databaseDirect }}
- name: LILY_DATABASE_DIRECT
  valueFrom: { secretKeyRef: { name: {{ .Values.secret.name }}, key: database-direct } }
{{- end }}
{{- if .Values.databaseReplica }}
- name: LILY_DATABASE_REPLICA
  valueFrom: { secretKeyRef: { name: {{ .Values.secret.name }}, key: database-replica } }
{{- end }}
- name: LILY_SECRET_KEY_FILE
  value: /etc/lily/secret.key
- name: LILY_PUBLIC_URL
  value: {{ .Values.publicUrl | quote }}
- name: LILY_LAKE
  value: {{ .Values.lake | quote }}
{{- if ne .Values.lakeCatalog "database" }}
- name: LILY_LAKE_CATALOG
  value: {{ .Values.lakeCatalog | quote }}
{{- end }}
{{- with .Values.lakeS3.endpoint }}
- name: LILY_LAKE_S3_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- with .Values.lakeS3.region }}
- name: LILY_LAKE_S3_REGION
  value: {{ . | quote }}
{{- end }}
- name: LILY_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- if ne .Values.log "postgres" }}
- name: LILY_LOG
  value: {{ .Values.log | quote }}
- name: LILY_KAFKA_SECURITY
  value: {{ .Values.kafka.security }}
- name: LILY_KAFKA_PARTITIONS
  value: {{ .Values.kafka.partitions | quote }}
- name: LILY_KAFKA_REPLICATION
  value: {{ .Values.kafka.replication | quote }}
{{- with .Values.kafka.mechanism }}
- name: LILY_KAFKA_MECHANISM
  value: {{ . }}
- name: LILY_KAFKA_USERNAME
  value: {{ $.Values.kafka.username | quote }}
- name: LILY_KAFKA_PASSWORD
  valueFrom: { secretKeyRef: { name: {{ $.Values.secret.name }}, key: kafka-password } }
{{- end }}
{{- if .Values.kafka.ca }}
- name: LILY_KAFKA_CA
  value: /etc/lily/kafka-ca
{{- end }}
{{- end }}
{{- with .Values.egressAllow }}
- name: LILY_EGRESS_ALLOW
  value: {{ toJson . | quote }}
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "lily.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "lily.mounts" -}}
- { name: home, mountPath: /var/lib/lily }
- { name: tmp, mountPath: /tmp }
- { name: keys, mountPath: /etc/lily, readOnly: true }
{{- end }}

{{- define "lily.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "lily.keys" -}}
- name: tmp
  emptyDir: {}
- name: keys
  secret:
    secretName: {{ .Values.secret.name }}
    defaultMode: 0440
    items:
      - { key: secret.key, path: secret.key }
      {{- if and (ne .Values.log "postgres") .Values.kafka.ca }}
      - { key: kafka-ca, path: kafka-ca }
      {{- end }}
{{- end }}

{{- define "lily.spark" -}}
{{- if gt (int .Values.spark.workers) 0 }}spark://{{ include "lily.name" . }}-spark:7077{{ else }}{{ .Values.spark.master }}{{ end -}}
{{- end }}

{{- define "lily.among" -}}
matchLabels: { {{ include "lily.selector" . | replace "\n" ", " }} }, matchExpressions: [{ key: app.kubernetes.io/component, operator: In, values: [pipeline, bulk, spark-master, spark-worker] }]
{{- end }}
