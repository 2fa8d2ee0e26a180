"""Job kinds from a file (``--job-kinds FILE``): the fields of a :class:`JobKind` as YAML, decoded strictly.

docs/job-kinds.md documents the fields. An unknown field is an error, because a misspelt one would let jobs run without
quota. :class:`JobPredicate` evaluates a path or a condition on a job; an object with an unexpected value there gives
false, and nothing raises. ``cli/options/job_options.py`` adds line numbers to errors.
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
    """Either a condition that is True, or a path with a number above zero, ``true``, or one of the given values."""

    condition: str = ""
    path: Path = ()
    words: tuple[str, ...] = ()

    def holds_for(self, job: Object) -> bool:
        if self.condition:
            return conditions.is_true(_conditions(job), self.condition)
        found = get_path(job, self.path)
        if self.words:
            return found in self.words
        return found is True or (isinstance(found, int) and found > 0)

    def message(self, job: Object) -> str:
        if not self.condition:
            return ""
        return str((conditions.find(_conditions(job), self.condition) or {}).get("message") or "")


def any_of(clauses: tuple[JobPredicate, ...]) -> Callable[[Object], bool]:
    return lambda job: any(each.holds_for(job) for each in clauses)


def always(count: int) -> Callable[[Object], int]:
    return lambda job: count


def number_at(path: Path, otherwise: int) -> Callable[[Object], int]:
    def read(job: Object) -> int:
        found = get_path(job, path)
        return found if _is_number(found) else otherwise

    return read


def template_problem(template: Path, replicas: Path) -> Callable[[Object], str]:
    """Why the pods of a role cannot be counted: pods that are not counted would run around their quota."""

    def find(job: Object) -> str:
        for path in (template, replicas):
            blocked = _not_a_map(job, path[:-1])
            if blocked:
                return f"{blocked} is not a map, so {'.'.join(path)} cannot be read: a path leads through maps only"
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


def _not_a_map(job: Object, path: Path) -> str:
    """The first part of the path that is there and is not a map."""
    for depth in range(1, len(path) + 1):
        found = get_path(job, path[:depth])
        if found is not None and not isinstance(found, dict):
            return ".".join(path[:depth])
    return ""


def least_at(path: Path) -> Callable[[Object], int | None]:
    def read(job: Object) -> int | None:
        found = get_path(job, path)
        return found if _is_number(found) and found > 0 else None

    return read


def _conditions(job: Object) -> list[Object]:
    return find_items(job, "status", "conditions")


def _is_number(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


_MOST_POD_SETS: Final = 18
_PATH: Final = "must be a path, such as spec.suspend, or a list of its steps"
_LIST: Final = "must lead through maps only: a list cannot be entered"
_NOT_WRITTEN: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_CLAUSE: Final = "must be a path, {path: status.phase, in: [Running]}, {condition: Ready}, or a list of such"
_KIND: Final = (
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
_POD_SET: Final = ("name", "template", "replicas", "minReplicas", "done")
_KNOWN_ELSEWHERE: Final = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


def parse_kinds(value: Any) -> tuple[JobKind, ...] | FieldErrors:
    """The kinds of a file, in its order, or everything that is wrong with it."""
    reading = _KindReader()
    wire = reading.object(value, "", ("kinds",), "must be a map with one field: kinds")
    kinds = [_kind(reading, each, f"kinds[{index}]") for index, each in enumerate(reading.list(wire, "kinds", ""))]
    seen = {(each.kind.group, each.kind.kind) for each in BUILTIN_KINDS} | _KNOWN_ELSEWHERE
    found: list[JobKind] = []
    for index, each in enumerate(kinds):
        if each is None:
            continue
        name = (each.kind.group, each.kind.kind)
        if name in seen:
            reading.problems.append(duplicate(f"kinds[{index}].kind", f"{each.kind.api_version} {each.kind.kind}"))
        seen.add(name)
        found.append(each)
    return reading.problems or tuple(found)


def _kind(reading: _KindReader, value: Any, path: str) -> JobKind | None:
    wire = reading.object(value, path, _KIND, "must be a map")
    group, slash, version = reading.text(wire, "apiVersion", path, "such as example.com/v1").rpartition("/")
    if wire.get("apiVersion") and (not slash or is_dns1123_subdomain(group) or is_dns1035_label(version)):
        reading.wrong(f"{path}.apiVersion", wire["apiVersion"], "must be a group and a version, such as example.com/v1")
    kind = reading.text(wire, "kind", path, "such as TrainingRun")
    plural = reading.text(wire, "plural", path, "such as trainingruns, as its API path has it")
    if plural and is_dns1035_label(plural):
        reading.wrong(f"{path}.plural", plural, "must be lower case letters and digits, such as trainingruns")
    listed = reading.list(wire, "podSets", path)
    pod_sets = [_pod_set(reading, each, f"{path}.podSets[{index}]") for index, each in enumerate(listed)]
    if len(listed) > _MOST_POD_SETS:
        reading.problems.append(forbidden(f"{path}.podSets", f"must have at most {_MOST_POD_SETS}"))
    names = [each.name for each, _ in pod_sets]
    for index, name in enumerate(names):
        if name in names[:index]:
            reading.problems.append(duplicate(f"{path}.podSets[{index}].name", name))
    suspend = reading.written_path(wire, "suspend", path, needed=True)
    _find_clashes(reading, suspend, [each.template for each, _ in pod_sets], path)
    active = reading.clauses(wire, "active", path, needed=True)
    ready = reading.clauses(wire, "ready", path, needed=False)
    succeeded = reading.clauses(wire, "succeeded", path, needed=True)
    failed = reading.clauses(wire, "failed", path, needed=False)
    labels = reading.texts(wire, "managedLabels", path)
    if reading.problems:
        return None
    places = tuple(each for each, _ in pod_sets)
    return JobKind(
        integration=f"{group}/{kind.lower()}",
        kind=GroupVersionKind(group, version, kind),
        resource=APIResource(group, version, plural, namespaced=True),
        suspend=suspend,
        pod_sets=places,
        managed_labels=frozenset(labels),
        is_active=any_of(active),
        outcome=_outcome(succeeded, failed),
        ready=_ready(ready, places),
        reclaimable=_reclaimable(pod_sets),
    )


def _find_clashes(reading: _KindReader, suspend: Path, templates: list[Path], path: str) -> None:
    """A boolean has nothing below it, and pods are not counted twice."""
    for index, template in enumerate(templates):
        place = f"{path}.podSets[{index}].template"
        shown = ".".join(template)
        if suspend and template and (_is_below(template, suspend) or _is_below(suspend, template)):
            reading.wrong(place, shown, f"clashes with suspend, {'.'.join(suspend)}: one is inside the other")
        for other in templates[:index]:
            if template and other and (_is_below(template, other) or _is_below(other, template)):
                reading.wrong(place, shown, f"clashes with the template {'.'.join(other)}: its pods would count twice")


def _is_below(path: Path, other: Path) -> bool:
    """Whether it is the other path, or inside what that leads to."""
    return path[: len(other)] == other


def _is_index(step: str) -> bool:
    return step.isdecimal() or any(sign in step for sign in "[]*")


def _pod_set(reading: _KindReader, value: Any, path: str) -> tuple[PodSetSource, Path]:
    wire = reading.object(value, path, _POD_SET, "must be a map")
    name = reading.text(wire, "name", path, "such as workers")
    if name and is_dns1123_label(name):
        reading.wrong(f"{path}.name", name, "must be lower case letters, digits and dashes, such as workers")
    template = reading.written_path(wire, "template", path, needed=True)
    told = wire.get("replicas", 1)
    is_number = isinstance(told, int) and not isinstance(told, bool)
    replicas = () if is_number else reading.written_path(wire, "replicas", path, needed=True)
    if is_number and told < 1:
        reading.wrong(f"{path}.replicas", told, "must be a number above zero, or a path")
    count = always(told) if is_number else number_at(replicas, 1)
    least, done = (reading.path(wire, field, path, needed=False) for field in ("minReplicas", "done"))
    problem = template_problem(template, replicas)
    if not least:
        return PodSetSource(name, template, count, problem=problem), done
    if not replicas:
        detail = "needs the path of a number in replicas: there the number that was admitted is written"
        reading.problems.append(forbidden(f"{path}.minReplicas", detail))
    return PodSetSource(
        name, template, count, least_at(least), lambda job, many: patch_at(replicas, many), problem
    ), done


def _outcome(
    succeeded: tuple[JobPredicate, ...], failed: tuple[JobPredicate, ...]
) -> Callable[[Object], JobOutcome | None]:
    def read(job: Object) -> JobOutcome | None:
        for clauses, is_good in ((failed, False), (succeeded, True)):
            for each in clauses:
                if each.holds_for(job):
                    otherwise = "Job finished successfully" if is_good else "Job failed"
                    return JobOutcome(is_good, each.message(job) or otherwise)
        return None

    return read


def _ready(clauses: tuple[JobPredicate, ...], places: tuple[PodSetSource, ...]) -> Callable[[Object], int]:
    """A number at a path counts; a condition, or a word, is about all pods. Who says nothing is always ready."""

    def read(job: Object) -> int:
        whole = sum(each.count(job) for each in places if get_path(job, each.template) is not None)
        if not clauses or any((each.condition or each.words) and each.holds_for(job) for each in clauses):
            return whole
        numbers = (get_path(job, each.path) for each in clauses if each.path and not each.words)
        return sum(whole if each is True else each for each in numbers if isinstance(each, int))

    return read


def _reclaimable(pod_sets: list[tuple[PodSetSource, Path]]) -> Callable[[Object], dict[str, int]]:
    counted = [(place.name, number_at(done, 0), place.count) for place, done in pod_sets if done]

    def read(job: Object) -> dict[str, int]:
        found = {name: min(done(job), count(job)) for name, done, count in counted}
        return {name: count for name, count in found.items() if count}

    return read


class _KindReader:
    """Fields one by one; what is wrong is noted, and reading goes on with something empty."""

    def __init__(self) -> None:
        self.problems: FieldErrors = []

    def wrong(self, path: str, value: Any, detail: str) -> None:
        self.problems.append(invalid(path, value, detail))

    def object(self, value: Any, path: str, known: tuple[str, ...], detail: str) -> Object:
        if not isinstance(value, dict):
            self.wrong(path or "kinds", value, detail)
            return {}
        for field in value:
            if field not in known:
                text = f"is not a field here; there are {', '.join(known)}"
                self.problems.append(forbidden(f"{path}.{field}" if path else field, text))
        return value

    def list(self, wire: Object, field: str, path: str) -> list[Any]:
        found, place = wire.get(field), f"{path}.{field}" if path else field
        if isinstance(found, list) and found:
            return found
        self.problems.append(
            required(place, "name at least one") if not found else invalid(place, found, "must be a list")
        )
        return []

    def text(self, wire: Object, field: str, path: str, example: str) -> str:
        found = wire.get(field)
        if isinstance(found, str) and found:
            return found
        place = f"{path}.{field}"
        self.problems.append(
            required(place, example) if not found else invalid(place, found, f"must be text, {example}")
        )
        return ""

    def texts(self, wire: Object, field: str, path: str) -> tuple[str, ...]:
        found = wire.get(field) or []
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(found)
        self.wrong(f"{path}.{field}", found, "must be a list of texts")
        return ()

    def path(self, wire: Object, field: str, path: str, *, needed: bool) -> Path:
        found, place = wire.get(field), f"{path}.{field}"
        if found is None:
            if needed:
                self.problems.append(required(place, _PATH))
            return ()
        steps = found.split(".") if isinstance(found, str) else found
        if not isinstance(steps, list) or not steps or not all(isinstance(each, str) and each for each in steps):
            self.wrong(place, found, _PATH)
            return ()
        if any(_is_index(each) for each in steps):
            self.wrong(place, found, _LIST)
            return ()
        return tuple(steps)

    def written_path(self, wire: Object, field: str, path: str, *, needed: bool) -> Path:
        """The path of something that its user writes, or that is written when the job starts: not metadata, not
        status."""
        found = self.path(wire, field, path, needed=needed)
        if found and found[0] in _NOT_WRITTEN:
            self.wrong(f"{path}.{field}", wire[field], f"must not be in {found[0]}: it is written with the object")
        return found

    def clauses(self, wire: Object, field: str, path: str, *, needed: bool) -> tuple[JobPredicate, ...]:
        found, place = wire.get(field), f"{path}.{field}"
        if found is None:
            if needed:
                self.problems.append(required(place, _CLAUSE))
            return ()
        listed = found if isinstance(found, list) else [found]
        indexed = isinstance(found, list)
        return tuple(self._clause(each, f"{place}[{n}]" if indexed else place) for n, each in enumerate(listed))

    def _clause(self, value: Any, path: str) -> JobPredicate:
        if isinstance(value, str):
            return JobPredicate(path=self.path({"path": value}, "path", path, needed=True))
        if not isinstance(value, dict) or ("condition" in value) == ("path" in value):
            self.wrong(path, value, _CLAUSE)
            return JobPredicate()
        self.object(value, path, ("condition", "path", "in"), _CLAUSE)
        if "condition" in value:
            if "in" in value:
                self.problems.append(forbidden(f"{path}.in", "goes with a path, not with a condition"))
            return JobPredicate(condition=self.text(value, "condition", path, "such as Ready"))
        return JobPredicate(path=self.path(value, "path", path, needed=True), words=self.texts(value, "in", path))
