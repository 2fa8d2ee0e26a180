{{- define "headgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "headgate.components" -}}
{{- $names := list -}}
{{- range $name := list "scheduler" "gates" "webhooks" "quota" "jobs" -}}
{{- if index $.Values.components $name -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- join "," $names -}}
{{- end }}

{{- /* "true" if this release may write the definition: it does not exist, or this release installed it. Definitions
of Volcano, of Kueue, of another release or of `headgate install` are used and not changed. */ -}}
{{- define "headgate.ownsDefinition" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name -}}
{{- if not $found -}}
true
{{- else -}}
{{- $annotations := $found.metadata.annotations | default dict -}}
{{- $labels := $found.metadata.labels | default dict -}}
{{- $release := index $annotations "meta.helm.sh/release-name" | default "" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" | default "" -}}
{{- $marked := index $labels "headgate.dev/definition" | default "" -}}
{{- $same := and (eq $release .root.Release.Name) (eq $namespace .root.Release.Namespace) -}}
{{- if and $same (eq $marked "true") -}}
true
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Whether the older version of a definition is served: while this release, or replicas outside of it, convert. Each
revision of a release with webhooks says the same, so that a roll-back changes nothing. */ -}}
{{- define "headgate.servesOlder" -}}
{{- if .root.Values.components.webhooks -}}
true
{{- else -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name | default dict -}}
{{- $spec := index $found "spec" | default dict -}}
{{- $conversion := index $spec "conversion" | default dict -}}
{{- $webhook := index $conversion "webhook" | default dict -}}
{{- $client := index $webhook "clientConfig" | default dict -}}
{{- $service := index $client "service" | default dict -}}
{{- $place := printf "%s/%s" (index $service "namespace" | default "") (index $service "name" | default "") -}}
{{- $own := eq $place (printf "%s/headgate" .root.Release.Namespace) -}}
{{- and (eq (index $conversion "strategy" | default "None") "Webhook") (not $own) -}}
{{- end -}}
{{- end }}

{{- define "headgate.check" -}}
{{- if not (include "headgate.components" .) -}}
{{- fail "no component is chosen: set one of components.scheduler, components.gates, components.webhooks, components.quota, components.jobs to true" -}}
{{- end -}}
{{- if and .Values.components.scheduler .Values.components.gates -}}
{{- fail "components.scheduler and components.gates exclude each other: gates is for another scheduler" -}}
{{- end -}}
{{- if and .Values.components.gates (not .Values.components.webhooks) -}}
{{- fail "components.gates needs components.webhooks, which add the gate to new pods" -}}
{{- end -}}
{{- if and .Values.queue.name (not (or .Values.components.scheduler .Values.components.gates)) -}}
{{- fail "no component serves queue.name: set components.scheduler or components.gates to true" -}}
{{- end -}}
{{- if and .Values.gatePolicies.enabled (not .Values.components.webhooks) -}}
{{- fail "gatePolicies.enabled needs components.webhooks, which apply the policies" -}}
{{- end -}}
{{- if and ((.Values.configuration).metrics).certFile (not .Values.metrics.secure) -}}
{{- fail "configuration.metrics.certFile: metrics are not served over TLS; set metrics.secure of the values to true, or remove it" -}}
{{- end -}}
{{- include "headgate.checkArguments" . -}}
{{- end }}

{{- /* Arguments with which the pods would not start, or which this chart sets itself. An option and its value may be
two words. */ -}}
{{- define "headgate.checkArguments" -}}
{{- $switches := list
  "--gate-all-pods"
  "--no-gate-all-pods"
  "--leader-elect"
  "--podgroups-for-bare-pods"
  "--no-podgroups-for-bare-pods"
  "--wait-for-terminating"
  "--no-wait-for-terminating"
  "--manage-jobs-without-queue-name"
  "--no-manage-jobs-without-queue-name"
  "--takeover"
  "--no-takeover"
  "--no-dry-run"
  "--no-shadow" -}}
{{- $options := list
  "--config"
  "--kueue-config"
  "--feature-gates"
  "--trusted-user"
  "--shutdown-delay"
  "--metrics-cert"
  "--metrics-key"
  "--scheduler-name"
  "--gated-scheduler-name"
  "--gated-pod-events"
  "--managed-jobs-namespace-selector"
  "--job-frameworks"
  "--quota-release"
  "--job-kinds"
  "--wait-for-pods-ready"
  "--max-wait-for-terminating-pods"
  "--report-terminating-pods-after"
  "--force-delete-terminating-pods-after" -}}
{{- $refused := dict
  "--kubeconfig" "the pods use their ServiceAccount, which has the rights; remove it"
  "--context" "the pods use their ServiceAccount, which has the rights; remove it"
  "--components" "the rights of the pods depend on it; set components in place of it"
  "--webhook-url" "API servers reach the webhooks of an installation through its Service; remove it"
  "--webhook-service" "API servers reach the webhooks of an installation through its Service; remove it"
  "--webhook-listen" "the Service uses the port that the installation sets; remove it"
  "--webhook-secret" "the pods have rights for the Secret of the installation only; remove it"
  "--metrics-listen" "the probes and the Service use the port that the installation sets; remove it"
  "--metrics-secure" "the probes of the pods depend on it; set metrics.secure of the values in place of it"
  "--no-metrics-secure" "the probes of the pods depend on it; set metrics.secure of the values in place of it"
  "--no-leader-elect" "during an update two pods run at the same time, and one of them must lead; remove it"
  "--dry-run" "the pods would write nothing; remove it"
  "--shadow" "shadow mode writes nothing, and an installation works; run it as a command, with its own rights"
  "--for" "shadow mode writes nothing, and an installation works; run it as a command, with its own rights"
  "--shadow-patience" "shadow mode writes nothing, and an installation works; run it as a command, with its own rights"
  "--log-level" "set logLevel in place of it"
  "--log-format" "set logFormat in place of it"
  "--help" "the pods would print it and end; remove it" -}}
{{- $forms := dict
  "--feature-gates" (dict "write" "write NAME=true,NAME=false with the names that `headgate run --help` lists" "patterns" (list
    `^\s*((PodSchedulingReadiness|QueueAllocationGate|SchedulingGatesQueueAdmission|GangAtomicUngate|ReservationLease|AdmissionGatedBy|SchedulingGatedBy|ActivationLabels|GateOwnership|PodIntegrationFastQuotaRelease|FastQuotaReleaseInPodIntegration|StartAfterTerminatingPods|FailureRecoveryPolicy|MutablePodResourcesForSuspendedJobs|MutableSchedulingDirectivesForSuspendedJobs)\s*=\s*(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False))?\s*(,\s*((PodSchedulingReadiness|QueueAllocationGate|SchedulingGatesQueueAdmission|GangAtomicUngate|ReservationLease|AdmissionGatedBy|SchedulingGatedBy|ActivationLabels|GateOwnership|PodIntegrationFastQuotaRelease|FastQuotaReleaseInPodIntegration|StartAfterTerminatingPods|FailureRecoveryPolicy|MutablePodResourcesForSuspendedJobs|MutableSchedulingDirectivesForSuspendedJobs)\s*=\s*(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False))?\s*)*$`
  ))
  "--shutdown-delay" (dict "write" "write a duration, such as 5s" "patterns" (list
    `^(\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)|-(0|((0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h))+))$`
  ))
  "--gated-pod-events" (dict "write" "write a number" "patterns" (list
    `^\s*\+?[0-9_]+\s*$`
  ))
  "--wait-for-pods-ready" (dict "write" "write a duration above zero, such as 5m or 90s" "patterns" (list
    `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
    `[1-9]`
  ))
  "--max-wait-for-terminating-pods" (dict "write" "write a duration above zero, such as 5m or 90s" "patterns" (list
    `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
    `[1-9]`
  ))
  "--report-terminating-pods-after" (dict "write" "write a duration above zero, such as 5m or 90s" "patterns" (list
    `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
    `[1-9]`
  ))
  "--force-delete-terminating-pods-after" (dict "write" "write a duration above zero, such as 5m or 90s" "patterns" (list
    `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
    `[1-9]`
  )) -}}
{{- $awaited := "" -}}
{{- $place := "" -}}
{{- range $index, $argument := .Values.extraArgs -}}
{{- if not $awaited -}}
{{- $place = printf "extraArgs[%d]: %s" $index $argument -}}
{{- end -}}
{{- $name := first (splitList "=" $argument) -}}
{{- $value := "" -}}
{{- if $awaited -}}
{{- $name = $awaited -}}
{{- $value = $argument -}}
{{- $awaited = "" -}}
{{- else if hasKey $refused $name -}}
{{- fail (printf "%s: %s" $place (get $refused $name)) -}}
{{- else if has $name $options -}}
{{- if contains "=" $argument -}}
{{- $value = trimPrefix (printf "%s=" $name) $argument -}}
{{- else -}}
{{- $awaited = $name -}}
{{- end -}}
{{- else if has $name $switches -}}
{{- if contains "=" $argument -}}
{{- fail (printf "%s: the option %s takes no value" $place $name) -}}
{{- end -}}
{{- else if hasPrefix "-" $name -}}
{{- fail (printf "%s: `headgate run` has no option %s" $place $name) -}}
{{- else -}}
{{- fail (printf "%s: an option begins with --" $place) -}}
{{- end -}}
{{- if and $value (hasKey $forms $name) -}}
{{- $form := get $forms $name -}}
{{- range $pattern := index $form "patterns" -}}
{{- if not (regexMatch $pattern $value) -}}
{{- fail (printf "%s: %s" $place (index $form "write")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $value (eq $name "--feature-gates") $.Values.gatePolicies.enabled -}}
{{- if not (contains "GateOwnership=true" $value) -}}
{{- fail (printf "%s: it replaces that of gatePolicies: add GateOwnership=true to it" $place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $awaited -}}
{{- fail (printf "%s: the option requires an argument" $place) -}}
{{- end -}}
{{- end }}
