"""Validates objects of a snapshot, and the pods of jobs of a trace, as the API server does.

Kinds of Kubernetes have the schemas and strategies of the embedded API server; the kinds of queues have the schemas of
their CustomResourceDefinitions. Rules that need other objects (does the parent queue exist?) belong to the admission
handlers, which the simulation calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.codec.codec import convert
from headgate.apimachinery.defaults.registry import DEFAULTERS
from headgate.apimachinery.strategy import STRATEGIES, StrategyContext
from headgate.apimachinery.structural.pruning import prune
from headgate.apimachinery.structural.schema import StructuralSchema, as_resource
from headgate.apimachinery.structural.validation import compile_schema
from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.kube.api_resources import APIResource
from headgate.kube.feature_gates import DEFAULTS
from headgate.kube.field_errors import FieldErrors, aggregate
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.timestamps import format_micro_time, format_time
from headgate.quota.kinds.definitions import definitions
from headgate.simulate.job_objects import pod_template
from headgate.simulate.snapshot import CheckedObject
from headgate.simulate.trace import TraceJob

Object = dict[str, Any]

_SCHEDULER: Final = "default-scheduler"
_NOT_CREATED: Final = ("ephemeralContainers",)
"""Fields of existing pods that cannot be set when a pod is created."""
_MAX_KNOWN: Final = 10_000
_TRACE_FIELDS: Final = (
    ("spec.containers[0].resources.requests", "requests"),
    ("spec.containers[0].resources.limits", "requests"),
    ("metadata.", ""),
    ("spec.", ""),
)
Check = Callable[[Any, Any, StructuralSchema | None, str], FieldErrors]


class _CustomKind(msgspec.Struct, frozen=True):
    check: Check
    schema: StructuralSchema


class ObjectValidation:
    """``schemas``: of the kinds of Kubernetes."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._context = StrategyContext(format_time(0), format_micro_time(0), DEFAULTS)
        self._custom: dict[tuple[str, str], _CustomKind] = {}
        self._known: dict[bytes, str] = {}

    def job_problem(self, job: TraceJob) -> str:
        """Why the API server would refuse the pods of the job; empty if it would not."""
        rules = (job.node_selector, job.tolerations, job.affinity, job.topology_spread_constraints)
        fields = (job.requests, job.labels, job.annotations, job.priority, job.priority_class, job.preemption_policy)
        key = msgspec.json.encode((job.namespace, rules, fields))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[key] = self._pod_problem(job)
        return found

    def _pod_problem(self, job: TraceJob) -> str:
        pod = pod_template(job, _SCHEDULER, job.priority, "", 0.0)
        # Extended resources, such as GPUs, must have limits. A job of a trace has requests only.
        pod["spec"]["containers"][0]["resources"]["limits"] = dict(job.requests)
        problem, unknown = self._built_in(GroupVersionKind("", "v1", "Pod"), pod)
        text = "; ".join([*unknown, *([problem] if problem else [])])
        for path, field in _TRACE_FIELDS:
            text = text.replace(path, field)
        return text

    def object_problem(self, resource: APIResource, kind: str, obj: Object) -> CheckedObject:
        """What is wrong with an object of a snapshot."""
        given = str(obj.get("apiVersion") or _api_version(resource))
        group = given.rpartition("/")[0]
        if group != resource.group:
            return CheckedObject(f"its apiVersion is {given}, and {_api_version(resource)} is simulated")
        gvk = GroupVersionKind(resource.group, resource.version, kind)
        if gvk in self._schemas.kinds:
            spec = obj.get("spec")
            if isinstance(spec, dict) and any(each in spec for each in _NOT_CREATED):
                obj = {**obj, "spec": {name: value for name, value in spec.items() if name not in _NOT_CREATED}}
            problem, unknown = self._built_in(gvk, obj)
        else:
            problem, unknown = self._custom_resource(resource, kind, obj)
        return CheckedObject(problem, tuple(unknown))

    def _built_in(self, gvk: GroupVersionKind, obj: Object) -> tuple[str, list[str]]:
        decoded = convert(self._schemas, self._schemas.kinds[gvk], obj)
        if decoded.error is not None:
            return decoded.error, []
        found = decoded.obj
        found["apiVersion"], found["kind"] = gvk.api_version, gvk.kind
        default = DEFAULTERS.get(gvk)
        if default is not None:
            default(found)
        strategy = STRATEGIES.get((gvk.group, gvk.kind))
        if strategy is None:
            return "", decoded.strict_errors
        strategy.prepare_create(found, self._context)
        problems = strategy.validate_create(found, self._context)
        return aggregate(problems) if problems else "", decoded.strict_errors

    def _custom_resource(self, resource: APIResource, kind: str, obj: Object) -> tuple[str, list[str]]:
        version = str(obj.get("apiVersion") or _api_version(resource)).rpartition("/")[2]
        if not self._custom:
            self._custom = _custom_kinds()
        custom = self._custom.get((kind, version))
        if custom is None:
            return f"its apiVersion {obj.get('apiVersion')!r} is not one of this kind", []
        content = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
        problems = custom.check(content, None, custom.schema, "")
        unknown = prune(copy.deepcopy(content), custom.schema)
        return aggregate(problems) if problems else "", [f'unknown field "{each}"' for each in unknown]


def _custom_kinds() -> dict[tuple[str, str], _CustomKind]:
    """The kinds of queues, by kind and version."""
    found = {}
    for definition in (*DEFINITIONS, *definitions(with_older=True)):
        spec: Mapping[str, Any] = definition["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            made = _CustomKind(compile_schema(schema), as_resource(schema))
            found[spec["names"]["kind"], version["name"]] = made
    return found


def _api_version(resource: APIResource) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version
