{{- define "kernel-delay.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion | default "latest" }}
{{- end }}

{{/* A manifest of Kustomize as it is, in the namespace of the release. */}}
{{- define "kernel-delay.manifest" -}}
{{- $manifest := .root.Files.Get (printf "manifests/%s" .file) | fromYaml }}
{{- $_ := set $manifest.metadata "namespace" .root.Release.Namespace }}
{{- $labels := dict "app.kubernetes.io/name" "kernel-delay" | merge ($manifest.metadata.labels | default dict) }}
{{- $_ := set $manifest.metadata "labels" $labels }}
{{- toYaml $manifest }}
{{- end }}

{{/* Without the entries of that key whose value is one of the names. */}}
{{- define "kernel-delay.without" -}}
{{- $kept := list }}
{{- range .entries }}
{{- if not (has (get . "name") $.names) }}
{{- $kept = append $kept . }}
{{- end }}
{{- end }}
{{- toJson $kept }}
{{- end }}
