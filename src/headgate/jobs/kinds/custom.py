"""Job kinds from a file (``--job-kinds FILE``): the fields of a :class:`JobKind` as YAML, decoded strictly.

docs/job-kinds.md documents the fields. An unknown field is an error, because jobs could run without quota if a field
name is misspelt. ``kind_reader.py`` reads the single fields; ``cli/options/job_options.py`` adds line numbers to
errors. The built-in kinds of ``framework_kinds.py`` are written in the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.clauses import JobPredicate, any_of, holds, outcome_of
from headgate.jobs.kinds.job_fields import Object, Path, value_at
from headgate.jobs.kinds.job_kind import HoldField, JobKind, PodGating
from headgate.jobs.kinds.kind_reader import KindReader
from headgate.jobs.kinds.number_expressions import ONE, ElementScope, NumberExpression, natural
from headgate.jobs.kinds.pod_set_rows import MAX_POD_SETS, PodSetRow, pod_sets_from, reclaimable_from
from headgate.kube.api_resources import APIResource
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, required
from headgate.kube.names import is_dns1035_label, is_dns1123_label, is_dns1123_subdomain
from headgate.kube.schema import GroupVersionKind

KIND_FIELDS: Final = (
    "apiVersion",
    "kind",
    "plural",
    "suspend",
    "pause",
    "gate",
    "podSets",
    "active",
    "ready",
    "succeeded",
    "failed",
    "neverEnds",
    "message",
    "priorityClass",
    "refuse",
    "ignore",
    "managedLabels",
    "mergedChildren",
)
_POD_SET_FIELDS: Final = ("name", "template", "replicas", "minReplicas", "done", "each", "nameFrom", "order", "when")
_PAUSE_FIELDS: Final = ("path", "held", "started")
_GATE_FIELDS: Final = ("group", "size")
_REFUSE_FIELDS: Final = ("when", "field", "message", "absent")
_OTHER_INTEGRATIONS: Final = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})
"""Kinds that Headgate supports through their pods, so that they cannot be job kinds."""
_NOT_WITH_GATE: Final = ("suspend", "pause", "ready", "succeeded", "failed", "message", "priorityClass")
_POD_SET_FIELDS_NOT_WITH_GATE: Final = ("each", "replicas", "minReplicas", "done")
_ANY_KEY: Final = "*"


def parse_kinds(value: Any) -> tuple[JobKind, ...] | FieldErrors:
    """The kinds in the order of the file, or all problems of the file."""
    reader = KindReader()
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


def _kind(reader: KindReader, value: Any, path: str) -> JobKind | None:
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
    hold, gate = _hold(reader, wire, path), _gate(reader, wire, path)
    rows = _rows(reader, wire, path)
    _check_overlaps(reader, hold.path, rows, path)
    active = reader.clauses(wire, "active", path, is_required=True)
    ready = _ready(reader, wire, path)
    never_ends = wire.get("neverEnds", False)
    if not isinstance(never_ends, bool):
        reader.add_invalid(f"{path}.neverEnds", never_ends, "must be true or false")
    succeeded = reader.clauses(wire, "succeeded", path, is_required=never_ends is not True and gate is None)
    failed = reader.clauses(wire, "failed", path)
    message, priority_class = (reader.path(wire, field, path) for field in ("message", "priorityClass"))
    refuse = _refusals(reader, wire, path)
    ignore = reader.clauses(wire, "ignore", path)
    labels = reader.texts(wire, "managedLabels", path)
    merged = reader.text(wire, "mergedChildren", path, "such as example.com") if "mergedChildren" in wire else ""
    if reader.problems:
        return None
    pod_sets = pod_sets_from(rows)
    return JobKind(
        integration=f"{group}/{kind.lower()}",
        kind=GroupVersionKind(group, version, kind),
        resource=APIResource(group, version, plural, namespaced=True),
        hold=hold,
        pod_sets=pod_sets,
        managed_labels=frozenset(labels),
        is_active=any_of(active),
        outcome=outcome_of(succeeded, failed, message),
        ready=lambda job: ready(job, sum(each.count for each in pod_sets(job).found)),
        reclaimable=reclaimable_from(rows),
        priority_class=priority_class,
        refusals=refuse,
        is_ignored=any_of(ignore),
        gate=gate,
        merged_children=merged,
    )


def _hold(reader: KindReader, wire: Object, path: str) -> HoldField:
    """The field that keeps an object from running: ``suspend``, or ``pause`` with the values that it has then."""
    if "gate" in wire:
        return HoldField(())
    if "pause" not in wire:
        return HoldField(reader.written_path(wire, "suspend", path, is_required=True))
    if "suspend" in wire:
        reader.problems.append(forbidden(f"{path}.pause", "excludes suspend: a job is held by one field"))
    source = f"{path}.pause"
    pause = reader.object(wire["pause"], source, _PAUSE_FIELDS, "must be a map of path, held, and started")
    found = reader.path(pause, "path", source, is_required=True)
    if found and found[:2] != ("metadata", "annotations"):
        reader.written_path(pause, "path", source)
    held, started = pause.get("held"), pause.get("started")
    if held is None:
        reader.problems.append(required(f"{source}.held", "the value of the field while the object waits"))
    for field, each in (("held", held), ("started", started)):
        if each is not None and not isinstance(each, str | int):
            reader.add_invalid(f"{source}.{field}", each, "must be text, a number, true or false")
    if held is not None and type(held) is type(started) and held == started:
        reader.add_invalid(f"{source}.started", started, "must differ from held")
    return HoldField(found, True if held is None else held, started)


def _gate(reader: KindReader, wire: Object, path: str) -> PodGating | None:
    """How the pods wait, if no field of the job holds it."""
    if "gate" not in wire:
        return None
    source = f"{path}.gate"
    unused = [f"{path}.{name}" for name in _NOT_WITH_GATE if name in wire]
    for index, each in enumerate(found if isinstance(found := wire.get("podSets"), list) else ()):
        fields = [name for name in _POD_SET_FIELDS_NOT_WITH_GATE if isinstance(each, dict) and name in each]
        unused += [f"{path}.podSets[{index}].{name}" for name in fields]
    reader.problems += [forbidden(each, "does not go with gate: the pods themselves are counted") for each in unused]
    gate = reader.object(wire["gate"], source, _GATE_FIELDS, "must be a map of group and size, or {}")
    group, size = reader.texts(gate, "group", source), reader.number(gate, "size", source)
    if bool(group) != (size is not None):
        reader.problems.append(required(f"{source}.{'size' if group else 'group'}", "group and size go together"))
    number = size or ONE
    return PodGating(group, lambda job: natural(number, ElementScope(job, job), 1), wire.get("neverEnds") is True)


def _rows(reader: KindReader, wire: Object, path: str) -> tuple[PodSetRow, ...]:
    listed = reader.list(wire, "podSets", path)
    rows = tuple(_pod_set_row(reader, each, f"{path}.podSets[{index}]") for index, each in enumerate(listed))
    if len(listed) > MAX_POD_SETS:
        reader.problems.append(forbidden(f"{path}.podSets", f"must have at most {MAX_POD_SETS}"))
    names = [each.name for each in rows]
    for index, name in enumerate(names):
        if name and name in names[:index]:
            reader.problems.append(duplicate(f"{path}.podSets[{index}].name", name))
    return rows


def _pod_set_row(reader: KindReader, value: Any, path: str) -> PodSetRow:
    wire = reader.object(value, path, _POD_SET_FIELDS, "must be a map")
    each = reader.written_path(wire, "each", path)
    name, is_element = "", "each" in wire
    if is_element and "name" in wire:
        reader.problems.append(forbidden(f"{path}.name", "with each, an element has its own name: write nameFrom"))
    elif not is_element:
        name = reader.text(wire, "name", path, "such as workers")
        for field in ("nameFrom", "order"):
            if field in wire:
                reader.problems.append(forbidden(f"{path}.{field}", "goes with each"))
    if name and is_dns1123_label(name):
        reader.add_invalid(f"{path}.name", name, "must be lower case letters, digits and dashes, such as workers")
    template = reader.written_path(wire, "template", path, is_required=True, is_in_element=is_element)
    replicas = reader.number(wire, "replicas", path) or ONE
    if replicas.operation == "constant" and (replicas.number or 0) < 1:
        reader.add_invalid(f"{path}.replicas", wire["replicas"], "must be a number above zero, or a path")
    minimum, done = reader.path(wire, "minReplicas", path), reader.number(wire, "done", path)
    if replicas.operation == "path":
        is_written = isinstance(wire["replicas"], str | list)
        if is_written:
            reader.written_path(wire, "replicas", path, is_in_element=is_element)
    if minimum and replicas.operation != "path":
        detail = "needs the path of a number in replicas: there the number that was admitted is written"
        reader.problems.append(forbidden(f"{path}.minReplicas", detail))
    return PodSetRow(
        template=template,
        name=name,
        each=each,
        name_from=reader.path(wire, "nameFrom", path),
        order=reader.texts(wire, "order", path),
        when=reader.clause(wire, "when", path),
        replicas=replicas,
        minimum=minimum,
        done=done,
    )


def _check_overlaps(reader: KindReader, hold: Path, rows: tuple[PodSetRow, ...], path: str) -> None:
    """Reports templates that overlap with the field that holds a job, or with each other."""
    templates = [_template_path(each) for each in rows]
    for index, template in enumerate(templates):
        field_path = f"{path}.podSets[{index}].template"
        shown = ".".join(template)
        if hold and template and (_is_below(template, hold) or _is_below(hold, template)):
            reader.add_invalid(field_path, shown, f"clashes with suspend, {'.'.join(hold)}: one is inside the other")
        for other in templates[:index]:
            if template and other and (_is_below(template, other) or _is_below(other, template)):
                reader.add_invalid(
                    field_path, shown, f"clashes with the template {'.'.join(other)}: its pods would count twice"
                )


def _template_path(row: PodSetRow) -> Path:
    """The path of its templates, with a placeholder for the step into a list or map."""
    if not row.template:
        return ()
    return (*row.each, _ANY_KEY, *row.template) if row.each else row.template


def _is_below(path: Path, other: Path) -> bool:
    """Whether ``path`` is equal to ``other`` or below it."""
    return len(path) >= len(other) and all(
        step == expected or _ANY_KEY in (step, expected) for step, expected in zip(path, other, strict=False)
    )


def _ready(reader: KindReader, wire: Object, path: str) -> Callable[[Object, int], int]:
    """The number of ready pods of a job, from the job and its number of pods. A condition or a value that matches, or a
    ``count`` that reaches ``of``, stands for all pods; several numbers at paths are added up. Without the field all
    pods are ready."""
    found = wire.get("ready")
    if isinstance(found, dict) and "count" in found:
        source = f"{path}.ready"
        reader.object(found, source, ("count", "of"), "must be a map of count and of")
        if found.get("of") is None:
            reader.problems.append(required(f"{source}.of", "the number that count reaches when all pods are ready"))
        count, of = (reader.number(found, field, source) or ONE for field in ("count", "of"))
        return lambda job, total: total if _reaches(count, of, job) else 0
    clauses = reader.clauses(wire, "ready", path)

    def read(job: Object, total: int) -> int:
        if not clauses or any(each.test != "positive" and holds(each, job) for each in clauses):
            return total
        values = (value_at(job, each.path) for each in clauses if each.test == "positive" and not each.each)
        return sum(total if each is True else each for each in values if isinstance(each, int))

    return read


def _reaches(count: NumberExpression, of: NumberExpression, job: Object) -> bool:
    scope = ElementScope(job, job)
    return natural(count, scope, 0) >= natural(of, scope, 1)


def _refusals(reader: KindReader, wire: Object, path: str) -> Callable[[Object], FieldErrors]:
    """What an object that waits in a queue must not contain. ``absent``: the value that the error shows if the object
    has none; without it the field is required."""
    rules: list[tuple[JobPredicate, Path, str, Any]] = []
    for index, each in enumerate(reader.list(wire, "refuse", path) if "refuse" in wire else ()):
        source = f"{path}.refuse[{index}]"
        rule = reader.object(each, source, _REFUSE_FIELDS, "must be a map of when, field and message")
        field = reader.path(rule, "field", source, is_required=True)
        message = reader.text(rule, "message", source, "the reason that users read")
        when = reader.clause(rule, "when", source)
        if when is None:
            reader.problems.append(required(f"{source}.when", "a clause"))
        else:
            rules.append((when, field, message, rule.get("absent")))

    def read(job: Object) -> FieldErrors:
        found: FieldErrors = []
        for when, field, message, absent in rules:
            if holds(when, job):
                value, shown = value_at(job, field), ".".join(field)
                value = absent if value is None else value
                found.append(required(shown, message) if value is None else invalid(shown, value, message))
        return found

    return read
