"""Job kinds from a file (``--job-kinds FILE``): the fields of a :class:`JobKind` as YAML, decoded strictly.

docs/job-kinds.md documents the fields. An unknown field is an error, because jobs could run without quota if a field
name is misspelt. :class:`JobPredicate` evaluates a path or a condition on a job; if the job has an unexpected value
there, the result is false, and nothing raises. ``cli/options/job_options.py`` adds line numbers to errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.job_kind import JobKind, JobOutcome, Object, Path, PodSetSource, patch_at
from headgate.kube import conditions
from headgate.kube.api_resources import APIResource
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, required
from headgate.kube.lenient_reader import find_items, get_path
from headgate.kube.names import is_dns1035_label, is_dns1123_label, is_dns1123_subdomain
from headgate.kube.schema import GroupVersionKind


class JobPredicate(msgspec.Struct, frozen=True):
    """A check of a job, also called a *clause* of the file: a condition that is True, or a path with a number above
    zero, ``true``, or one of ``values``."""

    condition: str = ""
    path: Path = ()
    values: tuple[str, ...] = ()

    def holds_for(self, job: Object) -> bool:
        if self.condition:
            return conditions.is_true(_conditions(job), self.condition)
        found = get_path(job, self.path)
        if self.values:
            return found in self.values
        return found is True or (isinstance(found, int) and found > 0)

    def message(self, job: Object) -> str:
        if not self.condition:
            return ""
        return str((conditions.find(_conditions(job), self.condition) or {}).get("message") or "")


def any_of(clauses: tuple[JobPredicate, ...]) -> Callable[[Object], bool]:
    return lambda job: any(each.holds_for(job) for each in clauses)


def always(count: int) -> Callable[[Object], int]:
    return lambda job: count


def number_at(path: Path, default: int) -> Callable[[Object], int]:
    def read(job: Object) -> int:
        found = get_path(job, path)
        return found if _is_number(found) else default

    return read


def template_problem(template: Path, replicas: Path) -> Callable[[Object], str]:
    """A function that says why the pods of a pod set cannot be counted; empty if they can. Pods that are not counted
    would run without quota."""

    def find(job: Object) -> str:
        for path in (template, replicas):
            non_map = _find_non_map(job, path[:-1])
            if non_map:
                return f"{non_map} is not a map, so {'.'.join(path)} cannot be read: a path leads through maps only"
        found, count = get_path(job, template), get_path(job, replicas)
        if found is None:
            return ""
        if (
            not isinstance(found, dict)
            or not isinstance(found.get("spec"), dict)
            or not found["spec"].get("containers")
        ):
            return f"{'.'.join(template)} is not a pod template with containers: write one, or leave it out"
        if replicas and count is not None and not _is_number(count):
            return f"{'.'.join(replicas)} is {count!r}, which is not a number of pods"
        return ""

    return find


def _find_non_map(job: Object, path: Path) -> str:
    """The first part of the path that exists and is not a map."""
    for depth in range(1, len(path) + 1):
        found = get_path(job, path[:depth])
        if found is not None and not isinstance(found, dict):
            return ".".join(path[:depth])
    return ""


def min_count_at(path: Path) -> Callable[[Object], int | None]:
    def read(job: Object) -> int | None:
        found = get_path(job, path)
        return found if _is_number(found) and found > 0 else None

    return read


def _conditions(job: Object) -> list[Object]:
    return find_items(job, "status", "conditions")


def _is_number(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


_MAX_POD_SETS: Final = 18
_PATH_FORM: Final = "must be a path, such as spec.suspend, or a list of its steps"
_LIST_IN_PATH: Final = "must lead through maps only: a list cannot be entered"
_NOT_WRITABLE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_CLAUSE_FORM: Final = "must be a path, {path: status.phase, in: [Running]}, {condition: Ready}, or a list of such"
KIND_FIELDS: Final = (
    "apiVersion",
    "kind",
    "plural",
    "suspend",
    "podSets",
    "active",
    "ready",
    "succeeded",
    "failed",
    "managedLabels",
)
_POD_SET_FIELDS: Final = ("name", "template", "replicas", "minReplicas", "done")
_OTHER_INTEGRATIONS: Final = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})
"""Kinds that Headgate supports through their pods, so that they cannot be job kinds."""


def parse_kinds(value: Any) -> tuple[JobKind, ...] | FieldErrors:
    """The kinds in the order of the file, or all problems of the file."""
    reader = _KindReader()
    wire = reader.object(value, "", ("kinds",), "must be a map with one field: kinds")
    kinds = [_kind(reader, each, f"kinds[{index}]") for index, each in enumerate(reader.list(wire, "kinds", ""))]
    seen = {(each.kind.group, each.kind.kind) for each in BUILTIN_KINDS} | _OTHER_INTEGRATIONS
    found: list[JobKind] = []
    for index, each in enumerate(kinds):
        if each is None:
            continue
        name = (each.kind.group, each.kind.kind)
        if name in seen:
            reader.problems.append(duplicate(f"kinds[{index}].kind", f"{each.kind.api_version} {each.kind.kind}"))
        seen.add(name)
        found.append(each)
    return reader.problems or tuple(found)


def _kind(reader: _KindReader, value: Any, path: str) -> JobKind | None:
    wire = reader.object(value, path, KIND_FIELDS, "must be a map")
    group, slash, version = reader.text(wire, "apiVersion", path, "such as example.com/v1").rpartition("/")
    if wire.get("apiVersion") and (not slash or is_dns1123_subdomain(group) or is_dns1035_label(version)):
        reader.add_invalid(
            f"{path}.apiVersion", wire["apiVersion"], "must be a group and a version, such as example.com/v1"
        )
    kind = reader.text(wire, "kind", path, "such as TrainingRun")
    plural = reader.text(wire, "plural", path, "such as trainingruns, as its API path has it")
    if plural and is_dns1035_label(plural):
        reader.add_invalid(f"{path}.plural", plural, "must be lower case letters and digits, such as trainingruns")
    listed = reader.list(wire, "podSets", path)
    pod_sets = [_pod_set(reader, each, f"{path}.podSets[{index}]") for index, each in enumerate(listed)]
    if len(listed) > _MAX_POD_SETS:
        reader.problems.append(forbidden(f"{path}.podSets", f"must have at most {_MAX_POD_SETS}"))
    names = [each.name for each, _ in pod_sets]
    for index, name in enumerate(names):
        if name in names[:index]:
            reader.problems.append(duplicate(f"{path}.podSets[{index}].name", name))
    suspend = reader.written_path(wire, "suspend", path, is_required=True)
    _check_overlaps(reader, suspend, [each.template for each, _ in pod_sets], path)
    active = reader.clauses(wire, "active", path, is_required=True)
    ready = reader.clauses(wire, "ready", path, is_required=False)
    succeeded = reader.clauses(wire, "succeeded", path, is_required=True)
    failed = reader.clauses(wire, "failed", path, is_required=False)
    labels = reader.texts(wire, "managedLabels", path)
    if reader.problems:
        return None
    sources = tuple(each for each, _ in pod_sets)
    return JobKind(
        integration=f"{group}/{kind.lower()}",
        kind=GroupVersionKind(group, version, kind),
        resource=APIResource(group, version, plural, namespaced=True),
        suspend=suspend,
        pod_sets=sources,
        managed_labels=frozenset(labels),
        is_active=any_of(active),
        outcome=_outcome(succeeded, failed),
        ready=_ready(ready, sources),
        reclaimable=_reclaimable(pod_sets),
    )


def _check_overlaps(reader: _KindReader, suspend: Path, templates: list[Path], path: str) -> None:
    """Reports templates that overlap with ``suspend`` or with each other."""
    for index, template in enumerate(templates):
        field_path = f"{path}.podSets[{index}].template"
        shown = ".".join(template)
        if suspend and template and (_is_below(template, suspend) or _is_below(suspend, template)):
            reader.add_invalid(field_path, shown, f"clashes with suspend, {'.'.join(suspend)}: one is inside the other")
        for other in templates[:index]:
            if template and other and (_is_below(template, other) or _is_below(other, template)):
                reader.add_invalid(
                    field_path, shown, f"clashes with the template {'.'.join(other)}: its pods would count twice"
                )


def _is_below(path: Path, other: Path) -> bool:
    """Whether ``path`` is equal to ``other`` or below it."""
    return path[: len(other)] == other


def _is_index(step: str) -> bool:
    return step.isdecimal() or any(sign in step for sign in "[]*")


def _pod_set(reader: _KindReader, value: Any, path: str) -> tuple[PodSetSource, Path]:
    """The pod set, and the path of the number of its pods that are done."""
    wire = reader.object(value, path, _POD_SET_FIELDS, "must be a map")
    name = reader.text(wire, "name", path, "such as workers")
    if name and is_dns1123_label(name):
        reader.add_invalid(f"{path}.name", name, "must be lower case letters, digits and dashes, such as workers")
    template = reader.written_path(wire, "template", path, is_required=True)
    replicas_value = wire.get("replicas", 1)
    is_number = isinstance(replicas_value, int) and not isinstance(replicas_value, bool)
    replicas = () if is_number else reader.written_path(wire, "replicas", path, is_required=True)
    if is_number and replicas_value < 1:
        reader.add_invalid(f"{path}.replicas", replicas_value, "must be a number above zero, or a path")
    count = always(replicas_value) if is_number else number_at(replicas, 1)
    min_count, done = (reader.path(wire, field, path, is_required=False) for field in ("minReplicas", "done"))
    problem = template_problem(template, replicas)
    if not min_count:
        return PodSetSource(name, template, count, problem=problem), done
    if not replicas:
        detail = "needs the path of a number in replicas: there the number that was admitted is written"
        reader.problems.append(forbidden(f"{path}.minReplicas", detail))
    return PodSetSource(
        name, template, count, min_count_at(min_count), lambda job, count: patch_at(replicas, count), problem
    ), done


def _outcome(
    succeeded: tuple[JobPredicate, ...], failed: tuple[JobPredicate, ...]
) -> Callable[[Object], JobOutcome | None]:
    def read(job: Object) -> JobOutcome | None:
        for clauses, succeeds in ((failed, False), (succeeded, True)):
            for each in clauses:
                if each.holds_for(job):
                    default = "Job finished successfully" if succeeds else "Job failed"
                    return JobOutcome(succeeds, each.message(job) or default)
        return None

    return read


def _ready(clauses: tuple[JobPredicate, ...], sources: tuple[PodSetSource, ...]) -> Callable[[Object], int]:
    """The number of ready pods: the number at a path, or all pods if a condition or a value matches. Without clauses
    all pods are ready."""

    def read(job: Object) -> int:
        total = sum(each.count(job) for each in sources if get_path(job, each.template) is not None)
        if not clauses or any((each.condition or each.values) and each.holds_for(job) for each in clauses):
            return total
        numbers = (get_path(job, each.path) for each in clauses if each.path and not each.values)
        return sum(total if each is True else each for each in numbers if isinstance(each, int))

    return read


def _reclaimable(pod_sets: list[tuple[PodSetSource, Path]]) -> Callable[[Object], dict[str, int]]:
    done_and_count = [(source.name, number_at(done, 0), source.count) for source, done in pod_sets if done]

    def read(job: Object) -> dict[str, int]:
        found = {name: min(done(job), count(job)) for name, done, count in done_and_count}
        return {name: count for name, count in found.items() if count}

    return read


class _KindReader:
    """Reads fields one by one. A problem is recorded, and the field is read as empty."""

    def __init__(self) -> None:
        self.problems: FieldErrors = []

    def add_invalid(self, path: str, value: Any, detail: str) -> None:
        self.problems.append(invalid(path, value, detail))

    def object(self, value: Any, path: str, known: tuple[str, ...], detail: str) -> Object:
        if not isinstance(value, dict):
            self.add_invalid(path or "kinds", value, detail)
            return {}
        for field in value:
            if field not in known:
                text = f"is not a field here; there are {', '.join(known)}"
                self.problems.append(forbidden(f"{path}.{field}" if path else field, text))
        return value

    def list(self, wire: Object, field: str, path: str) -> list[Any]:
        found, source = wire.get(field), f"{path}.{field}" if path else field
        if isinstance(found, list) and found:
            return found
        self.problems.append(
            required(source, "name at least one") if not found else invalid(source, found, "must be a list")
        )
        return []

    def text(self, wire: Object, field: str, path: str, example: str) -> str:
        found = wire.get(field)
        if isinstance(found, str) and found:
            return found
        field_path = f"{path}.{field}"
        self.problems.append(
            required(field_path, example) if not found else invalid(field_path, found, f"must be text, {example}")
        )
        return ""

    def texts(self, wire: Object, field: str, path: str) -> tuple[str, ...]:
        found = wire.get(field) or []
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(found)
        self.add_invalid(f"{path}.{field}", found, "must be a list of texts")
        return ()

    def path(self, wire: Object, field: str, path: str, *, is_required: bool) -> Path:
        found, source = wire.get(field), f"{path}.{field}"
        if found is None:
            if is_required:
                self.problems.append(required(source, _PATH_FORM))
            return ()
        steps = found.split(".") if isinstance(found, str) else found
        if not isinstance(steps, list) or not steps or not all(isinstance(each, str) and each for each in steps):
            self.add_invalid(source, found, _PATH_FORM)
            return ()
        if any(_is_index(each) for each in steps):
            self.add_invalid(source, found, _LIST_IN_PATH)
            return ()
        return tuple(steps)

    def written_path(self, wire: Object, field: str, path: str, *, is_required: bool) -> Path:
        """The path of a field that users or the start of the job write: not in metadata, not in status."""
        found = self.path(wire, field, path, is_required=is_required)
        if found and found[0] in _NOT_WRITABLE:
            self.add_invalid(
                f"{path}.{field}", wire[field], f"must not be in {found[0]}: it is written with the object"
            )
        return found

    def clauses(self, wire: Object, field: str, path: str, *, is_required: bool) -> tuple[JobPredicate, ...]:
        found, source = wire.get(field), f"{path}.{field}"
        if found is None:
            if is_required:
                self.problems.append(required(source, _CLAUSE_FORM))
            return ()
        listed = found if isinstance(found, list) else [found]
        is_list = isinstance(found, list)
        return tuple(self._clause(each, f"{source}[{n}]" if is_list else source) for n, each in enumerate(listed))

    def _clause(self, value: Any, path: str) -> JobPredicate:
        if isinstance(value, str):
            return JobPredicate(path=self.path({"path": value}, "path", path, is_required=True))
        if not isinstance(value, dict) or ("condition" in value) == ("path" in value):
            self.add_invalid(path, value, _CLAUSE_FORM)
            return JobPredicate()
        self.object(value, path, ("condition", "path", "in"), _CLAUSE_FORM)
        if "condition" in value:
            if "in" in value:
                self.problems.append(forbidden(f"{path}.in", "goes with a path, not with a condition"))
            return JobPredicate(condition=self.text(value, "condition", path, "such as Ready"))
        return JobPredicate(path=self.path(value, "path", path, is_required=True), values=self.texts(value, "in", path))
