{{- define "rowgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 54 | trimSuffix "-" }}
{{- end }}

{{/* 63 characters, less those of "-internal". */}}
{{- define "rowgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $made := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $made .Values.fullnameOverride | replace "." "-" | trunc 54 | trimSuffix "-" }}
{{- end }}

{{- define "rowgate.serviceAccountName" -}}
{{- default (.Values.serviceAccount.create | ternary (include "rowgate.fullname" .) "default") .Values.serviceAccount.name }}
{{- end }}

{{/* What does not change from version to version, because selectors cannot. */}}
{{- define "rowgate.releaseLabels" -}}
app.kubernetes.io/name: {{ include "rowgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rowgate.selector" -}}
{{ include "rowgate.releaseLabels" . }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "rowgate.testSelector" -}}
{{ include "rowgate.releaseLabels" . }}
app.kubernetes.io/component: test
{{- end }}

{{- define "rowgate.chartLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "rowgate.labels" -}}
{{ include "rowgate.selector" . }}
{{ include "rowgate.chartLabels" . }}
{{- end }}

{{- define "rowgate.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}
