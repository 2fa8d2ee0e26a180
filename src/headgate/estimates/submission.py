"""What would happen to objects before they are submitted: defaults, validation, admission, and the units they make.

Each object of a file is decoded and validated as the API server does, and passes its admission plugins
(``server_admission.py``) and Headgate's admission handlers. The result is
the object as it would be stored, what was changed, or why it is refused; and the units that would wait: pods in
Volcano-style queues, or the Workload of a job or of pods in Kueue's queues. ``cli/commands/explain_file.py`` asks the
replays about them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.admission_review import AdmissionRequest
from headgate.admission.settings import AdmissionSettings
from headgate.admission.steps import AdmissionStep, enabled_steps
from headgate.apimachinery.codec.codec import convert
from headgate.apimachinery.defaults.registry import DEFAULTERS
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.apimachinery.strategy import STRATEGIES, StrategyContext
from headgate.estimates.server_admission import ServerAdmission
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    APIResource,
)
from headgate.kube.feature_gates import DEFAULTS
from headgate.kube.field_errors import aggregate
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.timestamps import format_micro_time, format_time
from headgate.quota.kinds.conversion import convert as convert_kueue
from headgate.quota.kinds.names import API_VERSION as KUEUE_API_VERSION
from headgate.quota.kinds.names import OLDER_API_VERSION as OLDER_KUEUE_API_VERSION
from headgate.simulate.snapshot import KINDS as SNAPSHOT_KINDS

Object = dict[str, Any]

CLUSTER_KINDS: Final[Mapping[str, APIResource]] = {
    **{kind: resource for kind, resource in SNAPSHOT_KINDS.items() if resource not in (NODES, PODS)},
    "ServiceAccount": SERVICE_ACCOUNTS,
}
"""Kinds that change where others wait, or whether they are refused: queues, groups, flavors, classes, namespaces."""
_OWNERS: Final[Mapping[str, APIResource]] = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "ReplicationController": REPLICATION_CONTROLLERS,
}
_NO_PART: Final = "this kind is not known to have a part in queueing"
_VOLCANO_JOBS: Final = "batch.volcano.sh"
_VOLCANO_JOB: Final = "Headgate does not support jobs of batch.volcano.sh"
_CRON_JOB: Final = "its schedule says when it makes a Job; that Job is explained as if it were due now"
_GENERATED: Final = "xxxxx"
_USER: Final = "headgate-explain"
_MAX_SHOWN: Final = 160

Role = Literal["cluster", "pod", "job", "owner", "cron", "other"]


class SubmissionError(ValueError):
    """The file cannot be used. The text says which document, and why."""


class SubmittedObject(msgspec.Struct, frozen=True):
    """``obj``: as it would be stored. ``changes``: what admission would change, one line for each field. ``refusal``:
    why it would be refused; empty if it would be created. ``role``: a cluster object changes where others wait, a pod,
    job or owner makes units, a CronJob (``cron``) makes a Job, others are not looked at. ``job_kind``: of a job.
    ``note``: why it is not looked at, or what is looked at in its place."""

    kind: str
    resource: APIResource | None
    obj: Object
    role: Role
    changes: tuple[str, ...] = ()
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    job_kind: JobKind | None = None
    note: str = ""

    @property
    def title(self) -> str:
        metadata = self.obj["metadata"]
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.kind} {namespace}{metadata['name']}"


class SubmittedObjects:
    """Reads the documents of a file. ``cache``: the present objects, for the admission handlers; ``server``: the
    admission plugins of the API server; objects of the file are added to both. ``kinds``: the kinds of jobs.
    ``namespace``: of objects that name none."""

    def __init__(
        self,
        schemas: Schemas,
        settings: AdmissionSettings,
        cache: AdmissionCache,
        server: ServerAdmission,
        kinds: Collection[JobKind],
        namespace: str,
        now_s: float,
    ) -> None:
        self._schemas = schemas
        self._settings = settings
        self._cache = cache
        self._server = server
        self._names: set[tuple[APIResource, str, str]] = set()
        self._kinds = kinds
        self._namespace = namespace
        self._now_s = now_s
        self._steps: dict[APIResource, list[AdmissionStep]] = {}
        for step in enabled_steps(settings):
            if "CREATE" in step.operations and not step.subresource:
                self._steps.setdefault(step.resource, []).append(step)
        for steps in self._steps.values():
            steps.sort(key=lambda each: not each.mutates)
        self._count = 0

    def read(self, document: Any, where: str) -> SubmittedObject:
        """``where``: the document in messages. It raises :class:`SubmissionError`."""
        given = _checked(document, where)
        group, _, version = str(given["apiVersion"]).rpartition("/")
        kind = str(given["kind"])
        resource, role, job_kind = self._find(group, kind)
        obj = self._with_metadata(given, resource)
        if role == "other" or resource is None:
            return SubmittedObject(kind, resource, obj, "other", note=_note(group, kind, obj))
        note = _CRON_JOB if role == "cron" else ""
        problem = self._find_problem(resource, GroupVersionKind(group, version, kind), obj)
        if not problem:
            problem, obj = self._defaulted(GroupVersionKind(group, version, kind), obj)
        if problem:
            return SubmittedObject(kind, resource, obj, role, refusal=problem, job_kind=job_kind)
        changes, refusal, warnings, obj = self.admit(resource, obj)
        if not refusal:
            self._cache.applied(resource, obj)
            self._server.add(resource, obj)
            self._names.add(_key_of(resource, obj))
        return SubmittedObject(kind, resource, obj, role, changes, refusal, warnings, job_kind, note)

    def job_of(self, cron_job: SubmittedObject) -> SubmittedObject | None:
        """The Job that a CronJob makes when it is due; None if the CronJob is suspended."""
        spec = cron_job.obj.get("spec") or {}
        if spec.get("suspend"):
            return None
        template, metadata = spec.get("jobTemplate") or {}, cron_job.obj["metadata"]
        own = {field: value for field, value in (template.get("metadata") or {}).items() if value}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**own, "generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
            "spec": template.get("spec") or {},
        }
        return self.read(job, cron_job.title)

    def _find_problem(self, resource: APIResource, gvk: GroupVersionKind, obj: Object) -> str:
        """A version that is not served, or a name that an earlier object of the file has."""
        served = GroupVersionKind(resource.group, resource.version, gvk.kind)
        if gvk.version != resource.version and gvk not in self._schemas.kinds and served in self._schemas.kinds:
            return f"the API server does not serve {gvk.api_version}, kind {gvk.kind}; use {served.api_version}"
        taken = _key_of(resource, obj) in self._names
        return "it exists already: an earlier object of the file has its name" if taken else ""

    def _find(self, group: str, kind: str) -> tuple[APIResource | None, Role, JobKind | None]:
        for each in self._kinds:
            if (each.kind.group, each.kind.kind) == (group, kind):
                return each.resource, "job", each
        if (group, kind) == ("", "Pod"):
            return PODS, "pod", None
        if (group, kind) == (CRON_JOBS.group, "CronJob"):
            return CRON_JOBS, "cron", None
        tables: tuple[tuple[Mapping[str, APIResource], Role], ...] = ((CLUSTER_KINDS, "cluster"), (_OWNERS, "owner"))
        for table, role in tables:
            found = table.get(kind)
            if found is not None and found.group == group:
                return found, role, None
        return None, "other", None

    def _with_metadata(self, given: Object, resource: APIResource | None) -> Object:
        if given.get("apiVersion") == OLDER_KUEUE_API_VERSION:
            given = convert_kueue(given, KUEUE_API_VERSION)
        self._count += 1
        metadata = dict(given["metadata"])
        if not metadata.get("name"):
            number = "" if self._count == 1 else f"-{self._count}"
            metadata["name"] = f"{metadata['generateName']}{_GENERATED}{number}"
        metadata["uid"] = f"submitted-{self._count}"
        metadata["creationTimestamp"] = format_time(self._now_s)
        metadata.pop("resourceVersion", None)
        if resource is None or resource.namespaced:
            metadata.setdefault("namespace", self._namespace)
        return {**given, "metadata": metadata}

    def _defaulted(self, gvk: GroupVersionKind, obj: Object) -> tuple[str, Object]:
        """A problem that the API server would find, and the object with the defaults of its kind. Custom resources are
        validated by their own CustomResourceDefinition, which is not read."""
        type_name = self._schemas.kinds.get(gvk)
        if type_name is None:
            return "", obj
        decoded = convert(self._schemas, type_name, obj)
        if decoded.error or decoded.strict_errors:
            return decoded.error or "; ".join(decoded.strict_errors), obj
        found = decoded.obj
        found.setdefault("apiVersion", gvk.api_version)
        found.setdefault("kind", gvk.kind)
        default = DEFAULTERS.get(gvk)
        if default is not None:
            default(found)
        strategy = STRATEGIES.get((gvk.group, gvk.kind))
        if strategy is None:
            return "", found
        context = StrategyContext(format_time(self._now_s), format_micro_time(self._now_s), DEFAULTS)
        strategy.prepare_create(found, context)
        problems = strategy.validate_create(found, context)
        if problems:
            return f"it is invalid: {aggregate(problems)}", found
        if default is not None:
            default(found)
        return "", {"status": {}, **found}

    def admit(self, resource: APIResource, obj: Object) -> tuple[tuple[str, ...], str, tuple[str, ...], Object]:
        """What admission changes, why it refuses, what it warns of, and the changed object."""
        metadata = obj["metadata"]
        obj, set_by_server, refusal = self._server.mutate(resource, obj)
        changes: list[str] = list(set_by_server)
        warnings: list[str] = []
        if refusal:
            return tuple(changes), refusal, (), obj
        for step in self._steps.get(resource, ()):
            request = AdmissionRequest(
                operation="CREATE",
                resource=resource.plural,
                namespace=metadata.get("namespace") or "",
                name=metadata["name"],
                user=_USER,
                obj=obj,
                dry_run=True,
                now_s=self._now_s,
            )
            response = step.handle(request, self._settings, self._cache)
            warnings += response.warnings
            if response.refusal:
                return tuple(changes), response.refusal, tuple(warnings), obj
            if response.patch:
                patched = apply_json_patch(obj, list(response.patch), strict_decoding=False)
                assert isinstance(patched, PatchResult), patched
                obj = patched.value
                changes += map(_change_text, response.patch)
        return tuple(changes), self._server.validate(resource, obj), tuple(warnings), obj

    def pod_refusal(self, pod: Object) -> str:
        """Why the admission plugins of the API server would refuse a pod; empty if they would not."""
        changed, _, refusal = self._server.mutate(PODS, pod)
        return refusal or self._server.validate(PODS, changed)


def _checked(document: Any, where: str) -> Object:
    if not isinstance(document, dict):
        raise SubmissionError(f"{where}: it is not an object but {type(document).__name__}: {str(document)[:60]!r}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise SubmissionError(f"{where}: it has no {field}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not any(
        isinstance(metadata.get(field), str) and metadata[field] for field in ("name", "generateName")
    ):
        raise SubmissionError(f"{where}: {document['kind']} has no metadata.name and no metadata.generateName")
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is not None and not (
            isinstance(values, dict) and all(isinstance(each, str) for each in values.values())
        ):
            raise SubmissionError(f"{where}: metadata.{field} must be texts: write quotes around numbers and true")
    return document


def _key_of(resource: APIResource, obj: Object) -> tuple[APIResource, str, str]:
    metadata = obj["metadata"]
    return resource, metadata.get("namespace") or "", metadata["name"]


def _note(group: str, kind: str, obj: Object) -> str:
    """Why an object is not looked at."""
    if (group, kind) == (_VOLCANO_JOBS, "Job"):
        return _VOLCANO_JOB
    queue = queue_of(obj)
    if queue:
        return f"it names LocalQueue {queue}, but no file of --job-kinds describes this kind"
    return _NO_PART


def _change_text(operation: Mapping[str, Any]) -> str:
    path = str(operation.get("path", "")).strip("/").replace("~1", "\0").replace("/", ".").replace("\0", "/")
    value = msgspec.json.encode(operation.get("value")).decode() if "value" in operation else ""
    value = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
    return f"{operation.get('op')} {path}" + (f" = {value}" if value else "")


def pods_of_template(
    owner: Object, template: Object, count: int, scheduled: Mapping[str, int], first: int = 0
) -> list[Object]:
    """The pods that the controller of an owner would create. ``scheduled``: see :func:`with_priority`. ``first``: the
    number of the first pod. The names are made up. All pods have one age, so queues sort them by name: the numbers have
    leading zeros."""
    metadata = owner["metadata"]
    found = []
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    of_template = template.get("metadata") or {}
    width = len(str(max(first + count - 1, 0)))
    for number in range(first, first + count):
        name = f"{metadata['name']}-{number:0{width}}"
        pod_metadata = {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": f"{metadata['uid']}-{number}",
            "creationTimestamp": metadata["creationTimestamp"],
            "ownerReferences": [reference],
            **{field: dict(of_template[field]) for field in ("labels", "annotations") if of_template.get(field)},
        }
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata}
        pod |= {"spec": dict(template.get("spec") or {}), "status": {"phase": "Pending"}}
        found.append(with_priority(pod, scheduled))
    return found


def with_priority(pod: Object, priorities: Mapping[str, int]) -> Object:
    """The pod with the priority of its class, as the API server sets it. ``priorities``: by class; the key ``""`` is
    the global default."""
    spec = pod["spec"]
    if spec.get("priority") is not None:
        return pod
    value = priorities.get(spec.get("priorityClassName") or "", 0)
    return {**pod, "spec": {**spec, "priority": value}}


def priorities_of(classes: Sequence[Object]) -> dict[str, int]:
    """The values of PriorityClasses by name, and of the global default under the empty name."""
    found = {each["metadata"]["name"]: int(each.get("value") or 0) for each in classes}
    default = [int(each.get("value") or 0) for each in classes if each.get("globalDefault")]
    return {**found, "": min(default)} if default else found
