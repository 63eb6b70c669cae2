{{/* What the chart has to know of the gateway's configuration. The gateway itself judges the rest of it. */}}

{{/* `gateway:` of the configuration, as JSON; {} where the chart cannot see it. */}}
{{- define "rowgate.gateway" -}}
{{- $gateway := get (fromYaml .Values.config) "gateway" }}
{{- kindIs "map" $gateway | ternary $gateway dict | toJson }}
{{- end }}

{{/* "true" where all replicas sign the context with one key. */}}
{{- define "rowgate.sharedKey" -}}
{{- $context := get (include "rowgate.gateway" . | fromJson) "context" }}
{{- if .Values.existingConfigMap }}{{ .Values.sharedSigningKey }}
{{- else if kindIs "map" $context }}{{ not (empty (get $context "signing_key")) }}
{{- else }}false
{{- end }}
{{- end }}

{{/* A duration of the configuration in whole seconds, rounded up; 0 for what only the gateway can read. */}}
{{- define "rowgate.seconds" -}}
{{- $factor := get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0) (regexFind "[a-z]+$" .) | default 0.0 }}
{{- regexMatch "^[0-9.]+[a-z]+$" . | ternary (regexFind "^[0-9.]+" . | float64 | mulf $factor | ceil) 0.0 | int }}
{{- end }}
