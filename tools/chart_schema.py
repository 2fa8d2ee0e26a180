"""What Helm checks of the values `configuration` and `extraArgs`: a JSON schema and a template.

The schema is made from the same structs as the strict decoder and docs/configuration.md
(`headgate.cli.configuration.types`), with those rules of `headgate.cli.configuration.decoder` and of
`headgate.cli.configuration.install_values` that JSON schema can express. JSON schema has no messages and does not see
that a word is the value of the option before it, so a template checks the arguments. `headgate install --values FILE`
checks more (`UNCHECKED`). `tools/render_chart.py` puts both into the chart; `tests/real/test_helm_values.py` compares
what Helm and what Headgate refuse.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import inspect

from headgate.cli.commands.run import command
from headgate.cli.configuration.decoder import EXCLUSIVE
from headgate.cli.configuration.install_values import ALLOWED_VALUES, REFUSED_ARGUMENTS, REFUSED_FIELDS
from headgate.cli.configuration.types import API_VERSION, KIND, Configuration
from headgate.install.options import FEATURE_GATES, GATE_OWNERSHIP
from headgate.jobs.kinds.custom import KIND_FIELDS
from headgate.jobs.settings import FRAMEWORKS, POD_FRAMEWORKS, RELEASE_INTEGRATIONS
from headgate.kube.feature_gates import BOOLEANS, GATES
from headgate.kube.serializer.struct_decoder import plain_type

Object = dict[str, Any]

_UNIT = "(ns|us|µs|μs|ms|s|m|h)"
_PARTS = rf"(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+){_UNIT})+)"
_ZERO = rf"(0|((0+(\.0*)?|\.0+){_UNIT})+)"
DURATION_OR_ZERO = rf"^(\+?{_PARTS}|-{_ZERO})$"
DURATION = (rf"^\+?{_PARTS}$", "[1-9]")
"""A duration above zero matches both."""
_GATE_NAMES = tuple(name for gate in GATES for name in (gate.name, gate.alias) if name)
_GATE = rf"\s*(({'|'.join(_GATE_NAMES)})\s*=\s*({'|'.join(BOOLEANS)}))?\s*"
GATE_LIST = f"^{_GATE}(,{_GATE})*$"

_KEYS = "keys"
"""In a rule of a map: the keys that it may have. JSON schema has `propertyNames` for that, but the errors of Helm's
validator then have a wrong path."""
_ABOVE_ZERO: Object = {"allOf": [{"pattern": each} for each in DURATION]}
_NAMED: Object = {"items": {"minLength": 1}}
_REQUIREMENT: Object = {
    "type": "object",
    "properties": {
        "key": {"type": ["string", "null"]},
        "operator": {"type": ["string", "null"]},
        "values": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
    },
    "additionalProperties": False,
}
_SCHEDULER = "scheduler.configuration"


def _refused(path: str) -> Object:
    """The rule of a field that an installation must not set, or of which only one value is allowed."""
    return {"enum": list(dict.fromkeys((None, ALLOWED_VALUES.get(path))))}


def _refused_in_scheduler_configuration() -> Object:
    """The same for the fields of a scheduler configuration, whose other fields have no schema here."""
    found: Object = {}
    for path in REFUSED_FIELDS:
        if path.startswith(f"{_SCHEDULER}."):
            section, name = path.removeprefix(f"{_SCHEDULER}.").split(".")
            found[section] = {"properties": {name: _refused(path)}}
    return {"properties": found}


RULES: Mapping[str, Object] = {
    **{path: _refused(path) for path in REFUSED_FIELDS if not path.startswith(f"{_SCHEDULER}.")},
    _SCHEDULER: _refused_in_scheduler_configuration(),
    "featureGates": {_KEYS: _GATE_NAMES},
    "scheduler.names": {"minItems": 1, **_NAMED},
    "queues.trustedUsers": _NAMED,
    "queues.gatedSchedulerNames": {"minItems": 1, **_NAMED},
    "webhooks.shutdownDelay": {"pattern": DURATION_OR_ZERO},
    "jobs.managedJobsNamespaceSelector": {
        "properties": {
            "matchLabels": {"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}},
            "matchExpressions": {"type": ["array", "null"], "items": _REQUIREMENT},
        },
        "additionalProperties": False,
    },
    "jobs.frameworks": {
        "items": {"enum": list(FRAMEWORKS)},
        "if": {"contains": {"enum": list(POD_FRAMEWORKS[1:])}},
        "then": {"contains": {"enum": [POD_FRAMEWORKS[0]]}},
    },
    "jobs.quotaRelease": {_KEYS: RELEASE_INTEGRATIONS},
    "jobs.kinds": {
        "minItems": 1,
        "items": {
            "properties": {name: {} for name in KIND_FIELDS},
            "additionalProperties": False,
            "required": ["apiVersion", "kind", "plural", "podSets", "active"],
        },
    },
    "jobs.waitForPodsReady": {"required": ["timeout"]},
    "jobs.waitForPodsReady.timeout": _ABOVE_ZERO,
    "jobs.waitForPodsReady.recoveryTimeout": {"pattern": DURATION_OR_ZERO},
    "jobs.maxWaitForTerminatingPods": _ABOVE_ZERO,
    "jobs.reportTerminatingPodsAfter": _ABOVE_ZERO,
    "jobs.forceDeleteTerminatingPodsAfter": _ABOVE_ZERO,
}
"""By the path of a field: what it must fulfil beside its type."""
UNCHECKED = {
    "featureGates": "gates that contradict each other",
    "scheduler.configuration": "the fields of a scheduler configuration: they depend on its plugins",
    "jobs.managedJobsNamespaceSelector": "the syntax of labels, and operators",
    "jobs.kinds": "the values of their fields",
    "jobs.waitForPodsReady.requeuingStrategy": "a longest back-off that is shorter than the first",
    "jobs.forceDeleteTerminatingPodsAfter": "less than a minute",
    "webhooks.shutdownDelay": "more than the pods get before they are killed",
}
"""By the path of a field: what only `headgate install --values` and `headgate config check` refuse."""

_WRITE_DURATION = "write a duration above zero, such as 5m or 90s"
_FORMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    FEATURE_GATES: ((GATE_LIST,), "write NAME=true,NAME=false with the names that `headgate run --help` lists"),
    "--shutdown-delay": ((DURATION_OR_ZERO,), "write a duration, such as 5s"),
    "--gated-pod-events": ((r"^\s*\+?[0-9_]+\s*$",), "write a number"),
    "--wait-for-pods-ready": (DURATION, _WRITE_DURATION),
    "--max-wait-for-terminating-pods": (DURATION, _WRITE_DURATION),
    "--report-terminating-pods-after": (DURATION, _WRITE_DURATION),
    "--force-delete-terminating-pods-after": (DURATION, _WRITE_DURATION),
}
"""By option: patterns that its value must match, and what to write."""


def configuration_schema(description: str) -> Object:
    """Of the value `configuration`. `null` is an absent field, as in the file."""
    root = inspect.type_info(Configuration)
    assert isinstance(root, inspect.StructType)
    schema = _struct_schema(root, "")
    header = {"apiVersion": {"enum": [API_VERSION]}, "kind": {"enum": [KIND]}}
    return {
        "description": description,
        **schema,
        "type": "object",
        "properties": {**header, **schema["properties"]},
        "default": {},
    }


def _schema(type_: inspect.Type, path: str) -> Object:
    """Of a value that is not null."""
    plain, _ = plain_type(type_)
    match plain:
        case inspect.StructType():
            return _struct_schema(plain, f"{path}.")
        case inspect.VarTupleType(item) | inspect.ListType(item):
            return {"type": "array", "items": _schema(item, f"{path}[]")}
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object"}
        case inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _nullable(_schema(value, f"{path}.*"))}
        case inspect.LiteralType(values):
            return {"enum": list(values)}
        case inspect.IntType(ge=least, le=most):
            limits = {"minimum": least, "maximum": most}
            return {"type": "integer", **{name: limit for name, limit in limits.items() if limit is not None}}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.StrType():
            return {"type": "string"}
    raise TypeError(f"{path}: there is no JSON schema for {plain}")


def _struct_schema(struct: inspect.StructType, prefix: str) -> Object:
    properties = {}
    for field in struct.fields:
        path = f"{prefix}{field.encode_name}"
        _, description = plain_type(field.type)
        described = {"description": description} if description else {}
        properties[field.encode_name] = {
            **described,
            **_nullable(_with_rule(_schema(field.type, path), RULES.get(path, {}))),
        }
    rules = list(_rules_between(prefix, properties.keys()))
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"allOf": rules} if rules else {}),
    }


def _with_rule(schema: Object, rule: Object) -> Object:
    """Both: a rule of the items of a list adds to the type of the items."""
    both = {**schema, **rule}
    if keys := both.pop(_KEYS, ()):
        both |= {"properties": dict.fromkeys(keys, schema["additionalProperties"]), "additionalProperties": False}
    if "items" in schema and "items" in rule:
        both["items"] = {**schema["items"], **rule["items"]}
    return both


def _nullable(schema: Object) -> Object:
    if "type" in schema:
        schema = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return schema


def _rules_between(prefix: str, names: Any) -> Iterator[Object]:
    """Fields that exclude each other, and files that need each other. A field that is null is not given."""
    for path, other in EXCLUSIVE:
        name, other_name = path.removeprefix(prefix), other.removeprefix(prefix)
        if name in names and other_name in names and path != "webhooks.url":
            yield {"if": _given(other_name), "then": {"properties": {name: {"enum": [None]}}}}
    if prefix == "metrics.":
        for name, other_name in (("keyFile", "certFile"), ("certFile", "keyFile")):
            yield {"if": _given(name), "then": {"required": [other_name]}}


def _given(name: str) -> Object:
    return {"required": [name], "properties": {name: {"not": {"enum": [None]}}}}


ARGUMENTS = """\
{{- /* Arguments with which the pods would not start, or which this chart sets itself. An option and its value may be
two words. */ -}}
{{- define "headgate.checkArguments" -}}
{{- $switches := listSWITCHES -}}
{{- $options := listOPTIONS -}}
{{- $refused := dictREFUSED -}}
{{- $forms := dictFORMS -}}
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
{{- if and $value (eq $name "FEATURE_GATES") $.Values.gatePolicies.enabled -}}
{{- if not (contains "GATE_OWNERSHIP=true" $value) -}}
{{- fail (printf "%s: it replaces that of gatePolicies: add GATE_OWNERSHIP=true to it" $place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $awaited -}}
{{- fail (printf "%s: the option requires an argument" $place) -}}
{{- end -}}
{{- end }}
"""


def argument_check() -> str:
    """The template that checks `extraArgs`."""
    switches: list[str] = []
    options: list[str] = []
    refused: dict[str, str] = {}
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name in REFUSED_ARGUMENTS:
                refused[name] = REFUSED_ARGUMENTS[name]
            elif getattr(parameter, "is_flag", False):
                switches.append(name)
            else:
                options.append(name)
    # The parameters with the option for help depend on how the process has used the command before: click caches it.
    refused["--help"] = REFUSED_ARGUMENTS["--help"]
    texts = {
        "SWITCHES": _lines(map(json.dumps, switches)),
        "OPTIONS": _lines(map(json.dumps, options)),
        "REFUSED": _lines(f"{json.dumps(name)} {json.dumps(text)}" for name, text in refused.items()),
        "FORMS": _lines(itertools.chain.from_iterable(map(_form, _FORMS))),
        "FEATURE_GATES": FEATURE_GATES,
        "GATE_OWNERSHIP": GATE_OWNERSHIP,
    }
    written = ARGUMENTS
    for place, text in texts.items():
        written = written.replace(place, text)
    return written


def _form(flag: str) -> Iterator[str]:
    patterns, text = _FORMS[flag]
    yield f'{json.dumps(flag)} (dict "write" {json.dumps(text)} "patterns" (list'
    yield from (f"  `{each}`" for each in patterns)
    yield "))"


def _lines(items: Iterable[str]) -> str:
    return "".join(f"\n  {each}" for each in items)
