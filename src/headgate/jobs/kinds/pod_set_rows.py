"""The pod sets of a job, from the rows of a job kind: one pod set, or one for each element of a list or map.

A row whose template is missing in a job, or whose clause ``when`` is false, has no pods. A pod set that cannot be
counted gives a text instead, because its pods would run without quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.clauses import JobPredicate, holds
from headgate.jobs.kinds.job_fields import JobPath, Object, Path, path_text, value_at
from headgate.jobs.kinds.job_kind import JobPodSet, JobPodSets
from headgate.jobs.kinds.number_expressions import (
    ONE,
    ElementScope,
    NumberExpression,
    elements,
    evaluate,
    is_natural,
    natural,
)
from headgate.kube.names import is_dns1123_label

MAX_POD_SETS: Final = 18
"""The limit of a Workload."""
_MAX_COUNT: Final = 2**31 - 1


class PodSetRow(msgspec.Struct, frozen=True):
    """``each``: the path of a list or map with one pod set for each element; empty for a single pod set. All other
    paths begin at the element. ``name``: of a single pod set. ``name_from``: the path of the name in an element; empty
    for the key of a map. ``order``: the keys of a map that come first. ``minimum``: the path of the minimum for partial
    admission; then ``replicas`` is a path, to which the admitted number is written."""

    template: Path
    name: str = ""
    each: Path = ()
    name_from: Path = ()
    order: tuple[str, ...] = ()
    when: JobPredicate | None = None
    replicas: NumberExpression = ONE
    minimum: Path = ()
    done: NumberExpression | None = None

    def elements_of(self, job: Object) -> Iterator[tuple[JobPath, ElementScope]]:
        """The path and the scope of each element; the job itself for a single pod set."""
        if not self.each:
            yield (), ElementScope(job, job, self.name)
            return
        listed = elements(value_at(job, self.each))
        first = {key: index for index, key in enumerate(self.order)}
        for step, element in sorted(listed, key=lambda item: first.get(str(item[0]), len(first))):
            name = value_at(element, self.name_from) if self.name_from else step
            yield (*self.each, step), ElementScope(job, element, name if isinstance(name, str) else "")

    def template_text(self) -> str:
        return ".".join((*self.each, *(("*",) if self.each else ()), *self.template))


def pod_sets_from(rows: tuple[PodSetRow, ...]) -> Callable[[Object], JobPodSets]:
    """The function that reads the pod sets of a job."""

    def read(job: Object) -> JobPodSets:
        found: dict[str, JobPodSet] = {}
        problems = list[str]()
        for row in rows:
            if problem := _list_problem(row, job):
                problems.append(problem)
                continue
            for path, scope in row.elements_of(job):
                pod_set, problem = _pod_set(row, path, scope)
                problems += [problem] if problem else []
                if pod_set is not None and found.setdefault(pod_set.name, pod_set) is not pod_set:
                    problems.append(f"{path_text(path)} has the name of another pod set: {pod_set.name}")
        if len(found) > MAX_POD_SETS:
            problems.append(f"the job has {len(found)} pod sets; a Workload may have {MAX_POD_SETS}")
        if not found and not problems:
            problems.append(f"the job has no pod template: {', '.join(each.template_text() for each in rows)}")
        return JobPodSets(tuple(found.values()), problems[0] if problems else "")

    return read


def reclaimable_from(rows: tuple[PodSetRow, ...]) -> Callable[[Object], dict[str, int]]:
    """The function that reads how many pods of each pod set of a job are no longer needed."""

    def read(job: Object) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in rows:
            if row.done is None:
                continue
            for path, scope in row.elements_of(job):
                pod_set, _ = _pod_set(row, path, scope)
                done = natural(row.done, scope, 0)
                if pod_set is not None and min(done, pod_set.count):
                    found[pod_set.name] = min(done, pod_set.count)
        return found

    return read


def _list_problem(row: PodSetRow, job: Object) -> str:
    if not row.each:
        return ""
    problem = _non_map(job, row.each)
    found = value_at(job, row.each)
    if not problem and found is not None and not isinstance(found, dict | list):
        problem = f"{'.'.join(row.each)} is neither a list nor a map"
    elif isinstance(found, list) and not row.name_from:
        problem = f"{'.'.join(row.each)} is not a map, and its elements have no names"
    return problem


def _pod_set(row: PodSetRow, path: JobPath, scope: ElementScope) -> tuple[JobPodSet | None, str]:
    """The pod set of an element, None if it has no pods; and why its pods cannot be counted."""
    element, template_path = scope.element, (*path, *row.template)
    if element is None:
        return None, ""
    if not isinstance(element, dict):
        return None, f"{path_text(path)} is not a map"
    template = value_at(element, row.template)
    if template is None or (row.when is not None and not holds(row.when, element)):
        return None, _non_map(element, row.template, path)
    text, name = path_text(template_path), scope.name.lower()
    problem = ""
    if not _is_template(template):
        problem = f"{text} is not a pod template with containers: write one, or leave it out"
    elif is_dns1123_label(name):
        problem = f"{path_text(path)} has no name that a pod set can have: {scope.name!r}"
    if not isinstance(template, dict):
        return None, problem
    count, count_problem = _count(row, path, scope)
    least = value_at(element, row.minimum) if row.minimum else None
    min_count = least if isinstance(least, int) and is_natural(least) and least else None
    counts = ((*path, *row.replicas.path),) if row.minimum else ()
    return JobPodSet(name, template_path, template, count, min_count, counts), problem or count_problem


def _count(row: PodSetRow, path: JobPath, scope: ElementScope) -> tuple[int, str]:
    if row.replicas.path and (problem := _non_map(scope.element, row.replicas.path, path)):
        return 1, problem
    count = evaluate(row.replicas, scope)
    if count is None:
        return 1, ""
    if isinstance(count, str):
        return 1, f"{path_text(path)}.{count} of pods".removeprefix(".")
    if not 0 <= count <= _MAX_COUNT:
        return 1, f"{path_text((*path, *row.template))}: {count} is not a number of pods"
    return count, ""


def _is_template(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("spec"), dict) and bool(found["spec"].get("containers"))


def _non_map(obj: Any, path: Path, parent: JobPath = ()) -> str:
    """A text about the first part of the path, before its end, that exists and is not a map."""
    for depth in range(1, len(path)):
        found = value_at(obj, path[:depth])
        if found is not None and not isinstance(found, dict):
            shown = path_text((*parent, *path[:depth]))
            whole = path_text((*parent, *path))
            return f"{shown} is not a map, so {whole} cannot be read: a path leads through maps only"
    return ""
