#!/usr/bin/env python3
"""Renders the Helm chart from the objects of `headgate install`: `python tools/render_chart.py` writes
`deploy/helm/headgate`.

Nothing in the chart is written by hand: a test compares it with a fresh rendering. Change `headgate.install`, or the
texts below, and render again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.chart_schema import argument_check, configuration_schema
from tools.chart_template import ChartTemplate, Expression

import headgate
from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.cli.configuration.install_values import CERTIFICATE_WITHOUT_TLS
from headgate.gate_policies.definitions import DEFINITION
from headgate.install.hooks import status_hook, uninstall_hook
from headgate.install.manifests import KUEUE_COMPONENTS, VOLCANO_COMPONENTS, install_templates
from headgate.install.names import CONFIGURATION, DASHBOARD, NAME
from headgate.install.options import COMPONENTS, InstallOptions
from headgate.install.template import Condition, Setting, TemplateObject, When, when
from headgate.quota.kinds.definitions import definitions
from headgate.quota.kinds.names import OLDER
from headgate.quota.names import GROUP
from headgate.runtime.webhooks.conversions import PATH
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

CHART = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "headgate"
_MADE = "{{- /* Written by tools/render_chart.py from headgate.install. */ -}}\n"

FILES = {
    "serviceaccount.yaml": ("ServiceAccount",),
    "secret.yaml": ("Secret",),
    "roles.yaml": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "services.yaml": ("Service",),
    "networkpolicy.yaml": ("NetworkPolicy",),
    "poddisruptionbudget.yaml": ("PodDisruptionBudget",),
    "configuration.yaml": (CONFIGURATION,),
    "deployment.yaml": ("Deployment",),
    "monitoring.yaml": ("PodMonitor", "ServiceMonitor", "PrometheusRule", DASHBOARD),
    "queue.yaml": ("Queue",),
}
PAGE_FILE = "dashboard.yaml"
"""The objects of the live page, whatever their kinds are."""

HELPERS = """\
{{- define "headgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "headgate.components" -}}
{{- $names := list -}}
{{- range $name := list COMPONENT_NAMES -}}
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
{{- $own := eq $place (printf "%s/SERVICE_NAME" .root.Release.Namespace) -}}
{{- and (eq (index $conversion "strategy" | default "None") "Webhook") (not $own) -}}
{{- end -}}
{{- end }}

{{- define "headgate.check" -}}
{{- if not (include "headgate.components" .) -}}
{{- fail "no component is chosen: set one of components.COMPONENT_LIST to true" -}}
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
{{- fail "configuration.metrics.certFile: CERTIFICATE_TEXT" -}}
{{- end -}}
{{- include "headgate.checkArguments" . -}}
{{- end }}
"""

NOTES = """\
{{- include "headgate.check" . -}}
Headgate {{ .Chart.AppVersion }} runs in the namespace {{ .Release.Namespace }}: {{ include "headgate.components" . }}.

Is it ready?

  helm test {{ .Release.Name }} --namespace {{ .Release.Namespace }}
  headgate install --status --namespace {{ .Release.Namespace }} --components {{ include "headgate.components" . }}

{{- $theirs := list -}}
{{- range $name := list DEFINITION_NAMES -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- if and $found (ne (include "headgate.ownsDefinition" (dict "name" $name "root" $)) "true") -}}
{{- $theirs = append $theirs $name -}}
{{- end -}}
{{- end }}
{{- if $theirs }}

Another program installed these definitions. They are used and not changed:
{{- range $theirs }}
  {{ . }}
{{- end }}
{{- end }}
{{- if .Values.queue.name }}

Pods of the queue {{ .Values.queue.name }} are gated until the queue has capacity. A pod names it by the annotation
  scheduling.volcano.sh/queue-name: {{ .Values.queue.name }}
{{- end }}
{{- if not .Values.crds.keep }}

WARNING: crds.keep is false. `helm uninstall` deletes all queues and Workloads.
{{- end }}
"""

IGNORED = ".git\n*.orig\n*.tgz\n"


def render() -> dict[str, str]:
    """The files of the chart, by their paths."""
    options = InstallOptions()
    defaults: Object = msgspec.to_builtins(options)
    chart = ChartTemplate(defaults)
    files = {
        "Chart.yaml": _yaml(_chart_yaml()),
        "values.yaml": _values_yaml(defaults),
        "values.schema.json": json.dumps(_schema(), indent=2, ensure_ascii=False) + "\n",
        ".helmignore": IGNORED,
        "templates/_helpers.tpl": _helpers(),
        "templates/NOTES.txt": NOTES.replace("DEFINITION_NAMES", _quoted(_definition_names())),
    }
    for name, kinds in FILES.items():
        objects = [each for each in install_templates() if _kind(each) in kinds and not _is_of_page(each)]
        files[f"templates/{name}"] = _MADE + "".join(chart.document(each) for each in objects)
    page = [each for each in install_templates() if _is_of_page(each)]
    files[f"templates/{PAGE_FILE}"] = _MADE + "".join(map(chart.document, page))
    files["templates/uninstall-hook.yaml"] = _MADE + "".join(map(chart.document, uninstall_hook()))
    files["templates/tests/status.yaml"] = _MADE + "".join(map(chart.document, status_hook()))
    for definitions_of, condition in (
        (DEFINITIONS, _any_component(VOLCANO_COMPONENTS)),
        (_kueue_kinds(), _any_component(KUEUE_COMPONENTS)),
        ((DEFINITION,), when("gatePolicies.enabled")),
    ):
        for definition in definitions_of:
            name = definition["metadata"]["name"]
            files[f"templates/crds/{name}.yaml"] = _MADE + _definition(chart, definition, condition)
    return files


def _is_of_page(each: TemplateObject) -> bool:
    return each.condition is not None and "dashboard.enabled" in each.condition.any_of


def _kind(each: TemplateObject) -> str:
    """The kind of an object; the name of a ConfigMap."""
    return str(each.body["metadata"]["name"]) if each.kind == "ConfigMap" else each.kind


def _kueue_kinds() -> tuple[Object, ...]:
    return definitions(with_older=False)


def _definition_names() -> list[str]:
    return [each["metadata"]["name"] for each in (*DEFINITIONS, *_kueue_kinds(), DEFINITION)]


def _any_component(components: frozenset[str]) -> Condition:
    return Condition(tuple(f"components.{each}" for each in COMPONENTS if each in components))


def _definition(chart: ChartTemplate, definition: Object, chosen: Condition) -> str:
    """A definition that Helm keeps, unless crds.keep is false, and that it leaves to other owners."""
    name = definition["metadata"]["name"]
    kept = When(when("crds.keep"), {"helm.sh/resource-policy": "keep"})
    spec = _converted(name, definition["spec"]) if name.endswith(GROUP) else definition["spec"]
    body = {**definition, "metadata": {**definition["metadata"], "annotations": kept}, "spec": spec}
    owns = f'eq (include "headgate.ownsDefinition" (dict "name" "{name}" "root" $)) "true"'
    test = f"and .Values.crds.enabled ({chart.test(chosen)}) ({owns})"
    return f"{{{{- if {test} }}}}\n{chart.document(TemplateObject(body))}{{{{- end }}}}\n"


def _converted(name: str, spec: Object) -> Object:
    """The replicas convert between the versions, and add the `caBundle` of their certificates."""
    serves_older = Expression(f'include "headgate.servesOlder" (dict "name" "{name}" "root" $)')
    versions = [{**each, "served": serves_older} if each["name"] == OLDER else each for each in spec["versions"]]
    client = WebhookTarget(service=NAME).client_config(PATH, "")
    webhook = {
        "clientConfig": {"service": {**client["service"], "namespace": Setting("$namespace")}},
        "conversionReviewVersions": ["v1"],
    }
    conversion = When(when("components.webhooks"), {"strategy": "Webhook", "webhook": webhook})
    return {**spec, "conversion": conversion, "versions": versions}


def _helpers() -> str:
    text = HELPERS.replace("SERVICE_NAME", NAME).replace("COMPONENT_NAMES", _quoted(COMPONENTS))
    text = text.replace("CERTIFICATE_TEXT", CERTIFICATE_WITHOUT_TLS)
    return f"{text.replace('COMPONENT_LIST', ', components.'.join(COMPONENTS))}\n{argument_check()}"


def _quoted(names: Any) -> str:
    return " ".join(json.dumps(each) for each in names)


def _chart_yaml() -> Object:
    return {
        "apiVersion": "v2",
        "name": "headgate",
        "description": "Gate-controlled queueing and scheduling for Kubernetes.",
        "type": "application",
        "version": headgate.__version__,
        "appVersion": headgate.__version__,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["scheduling", "queue", "quota", "batch", "scheduling-gates"],
    }


def _yaml(document: Object) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120)


def _values_yaml(defaults: Object) -> str:
    head = [
        "# The values of the chart. `headgate install --values FILE` reads the same file.",
        "# Written by tools/render_chart.py from headgate.install.options.",
    ]
    return "\n".join([*head, *_values_lines(defaults, _fields(InstallOptions), 0)]) + "\n"


def _values_lines(values: Mapping[str, Any], fields: Mapping[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    pad = "  " * depth
    for name, value in values.items():
        field = fields[name]
        lines.append(f"{pad}# {field['description']}")
        if field["fields"]:
            lines += [f"{pad}{name}:", *_values_lines(value, field["fields"], depth + 1)]
        else:
            written = _yaml({name: value}).rstrip("\n").split("\n")
            lines += [pad + each for each in written]
    return lines


def _fields(options: type[msgspec.Struct]) -> dict[str, Any]:
    """By the name in the values: the description, and the fields of a struct."""
    kind = msgspec.inspect.type_info(options)
    assert isinstance(kind, msgspec.inspect.StructType)
    found: dict[str, Any] = {}
    for each in kind.fields:
        inner: Any = each.type
        assert isinstance(inner, msgspec.inspect.Metadata), each.name
        description = (inner.extra_json_schema or {})["description"]
        below = _fields(inner.type.cls) if isinstance(inner.type, msgspec.inspect.StructType) else {}
        found[each.encode_name] = {"description": description, "fields": below}
    return found


def _schema() -> Object:
    """JSON schema, draft 7 as Helm reads it; `global` is what Helm adds for subcharts."""
    (schema,), parts = msgspec.json.schema_components([InstallOptions], ref_template="#/definitions/{name}")
    for part in parts.values():  # values.yaml has all of them: one is missing only if a values file sets it to null
        part["required"] = list(part["properties"])
    values = parts["InstallOptions"]["properties"]
    values["configuration"] = configuration_schema(values["configuration"]["description"])
    values["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema, "definitions": parts}


def main() -> int:
    files = render()
    for stale in sorted(CHART.rglob("*")):
        if stale.is_file() and str(stale.relative_to(CHART)) not in files:
            stale.unlink()
    for name, text in files.items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{CHART}: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
