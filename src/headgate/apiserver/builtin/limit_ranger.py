"""LimitRanger: the limit ranges of a namespace fill in what containers leave open, and bound what they ask for.

Of a pod, they count at its birth and when it is resized; of a claim, at every write. What was filled in is written on
the pod, in an annotation. The comparisons themselves, and their words, are in ``limit_constraints.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headgate.apiserver import sizes
from headgate.apiserver.builtin import limit_constraints
from headgate.apiserver.builtin.attributes import Attributes, Object, View
from headgate.kube import status
from headgate.kube.limit_ranges import ContainerDefaults, container_defaults, fill_container
from headgate.kube.pods.resources import Amounts, Which, amounts, sum_containers
from headgate.kube.structural.defaulting import TooManyDefaults

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_POD_LEVEL: Final = ("cpu", "memory")
# The field of the pod, and how the annotation calls what stands there.
_CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))


def admit_pod(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    for limits in _applicable(attributes, old, view):
        defaults = container_defaults(limits)
        if any(defaults.values()):
            _fill_pod(new, defaults)
    return None


def validate_pod(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    for limits in _applicable(attributes, old, view):
        problems = [text for limit in limits for text in _pod_problems(limit, new.get("spec") or {})]
        if problems:
            return attributes.forbidden(new, _aggregate(problems))
    return None


def validate_claim(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    for limits in _applicable(attributes, old, view):
        requests = amounts((new.get("spec") or {}).get("resources"), "requests")
        problems = [
            text
            for limit in limits
            if limit.get("type") == "PersistentVolumeClaim"
            for text in limit_constraints.Bounds(limit).claim_problems(requests)
        ]
        if problems:
            return attributes.forbidden(new, _aggregate(problems))
    return None


def _applicable(attributes: Attributes, old: Object | None, view: View) -> Iterator[list[Object]]:
    """The limits of each limit range in the namespace. Who is going away is left alone."""
    if old is not None and "deletionTimestamp" in old["metadata"]:
        return
    for each in view.list("limitranges", attributes.namespace):
        yield (each.get("spec") or {}).get("limits") or []


def _fill_pod(pod: Object, defaults: ContainerDefaults) -> None:
    """Containers and defaults are two sizes that clients choose: filling stops at the size of a stored object."""
    spec = dict(pod.get("spec") or {})
    notes: list[str] = []
    room = sizes.MOST_BYTES
    for field, word in _CONTAINERS:
        containers = spec.get(field)
        if not containers:
            continue
        spec[field] = filled = []
        for container in containers:
            resources = dict(container.get("resources") or {})
            for note in fill_container(resources, defaults):
                notes.append(f"{note} for {word} {container.get('name', '')}")
                room -= len(note)
            if room < 0:
                raise TooManyDefaults
            filled.append({**container, "resources": resources})
    if notes:
        metadata = pod["metadata"]
        text = "LimitRanger plugin set: " + "; ".join(notes)
        pod["spec"] = spec
        pod["metadata"] = {**metadata, "annotations": {**(metadata.get("annotations") or {}), _ANNOTATION: text}}


def _pod_problems(limit: Object, spec: Object) -> Iterator[str]:
    if limit.get("type") == "Container":
        bounds = limit_constraints.Bounds(limit)
        for field, _ in _CONTAINERS:
            for container in spec.get(field) or ():
                resources = container.get("resources")
                yield from bounds.usage_problems(amounts(resources, "requests"), amounts(resources, "limits"))
    elif limit.get("type") == "Pod":
        bounds = limit_constraints.Bounds(limit)
        yield from bounds.usage_problems(_pod_amounts(spec, "requests"), _pod_amounts(spec, "limits"))


def _pod_amounts(spec: Object, which: Which) -> Amounts:
    """The pod as a whole. Other than for scheduling, its overhead is not counted."""
    own = amounts(spec.get("resources"), which)
    return {**sum_containers(spec, which), **{name: own[name] for name in _POD_LEVEL if name in own}}


def _aggregate(problems: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
