"""LimitRanger: the LimitRanges of a namespace set default requests and limits, and bound what pods and claims ask for.

A pod is checked on create and on resize, a claim on every write. The defaults that were set are recorded in an
annotation of the pod. Amounts are compared in thousandths where 64 bits hold them, else in whole units, as
kube-apiserver does: half a thousandth above the maximum still passes. ``kube/pods/limit_ranges.py`` computes the
defaults; ``plugin_table.py`` says when the plugin runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.structural.defaulting import TooManyDefaults
from headgate.apiserver.admission_plugins import limit_ranger
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.apiserver.kinds import size_limits
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts, Which, amounts, sum_containers
from headgate.kube.pods.limit_ranges import ContainerDefaults, container_defaults, fill_container
from headgate.kube.quantity import Quantity

_MAX_MILLI: Final = (2**63 - 1) // 1000

Check = Callable[[str, str, Quantity, "Quantity | None", "Quantity | None"], "str | None"]
Checks = tuple[tuple[str, Check], ...]


class LimitRangeBounds:
    """The bounds of one limit, asked about one container after the other.

    Each check complains of a resource that is neither requested nor limited, in the same words for every container.
    That is told once: a limit may have as many resources as a pod has containers, and they are not compared in pairs.
    """

    def __init__(self, limit: Object) -> None:
        self._scope: Final = limit.get("type") or ""
        self._bounds: Final[dict[str, dict[str, Quantity]]] = {
            field: {name: quantity.amount(text) for name, text in sorted((limit.get(field) or {}).items())}
            for field in ("min", "max", "maxLimitRequestRatio")
        }
        self._untold: Final = {field: dict.fromkeys(bounds) for field, bounds in self._bounds.items()}

    def usage_problems(self, requests: Amounts, limits: Amounts) -> Iterator[str]:
        """What containers and pods do wrong: they have requests and limits."""
        return self._problems(_OF_USAGE, requests, limits)

    def claim_problems(self, requests: Amounts) -> Iterator[str]:
        """What claims do wrong: they only request."""
        return self._problems(_OF_CLAIMS, requests, {})

    def _problems(self, checks: Checks, requests: Amounts, limits: Amounts) -> Iterator[str]:
        given = requests.keys() | limits.keys()
        for field, check in checks:
            bounds, untold = self._bounds[field], self._untold[field]
            missing = [name for name in untold if name not in given]
            for name in missing:
                del untold[name]
            for name in sorted((*missing, *(each for each in given if each in bounds))):
                problem = check(name, self._scope, bounds[name], requests.get(name), limits.get(name))
                if problem is not None:
                    yield problem


def _comparable(*amounts: Quantity | None) -> list[int]:
    """At one precision for all; what is missing is zero."""
    units = [0 if each is None else each.value() for each in amounts]
    if any(each > _MAX_MILLI for each in units):
        return units
    return [0 if each is None else each.milli_value() for each in amounts]


def _minimum(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    asked, capped, least = _comparable(request, limit, bound)
    lead = f"minimum {name} usage per {scope} is {bound}"
    if request is None:
        return f"{lead}.  No request is specified"
    if asked < least:
        return f"{lead}, but request is {request}"
    if limit is not None and capped < least:
        return f"{lead}, but limit is {limit}"
    return None


def _maximum(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    asked, capped, most = _comparable(request, limit, bound)
    lead = f"maximum {name} usage per {scope} is {bound}"
    if limit is None:
        return f"{lead}.  No limit is specified"
    if capped > most:
        return f"{lead}, but limit is {limit}"
    if request is not None and asked > most:
        return f"{lead}, but request is {request}"
    return None


def _maximum_request(
    name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str | None:
    asked, most = _comparable(request, bound)
    lead = f"maximum {name} usage per {scope} is {bound}"
    if request is None:
        return f"{lead}.  No request is specified"
    return f"{lead}, but request is {request}" if asked > most else None


def _ratio(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    asked, capped, _ = _comparable(request, limit, bound)
    lead = f"{name} max limit to request ratio per {scope} is {bound}"
    if not asked:
        return f"{lead}, but no request is specified or request is 0"
    if not capped:
        return f"{lead}, but no limit is specified or limit is 0"
    ratio = capped / asked
    exact = bound.value() <= _MAX_MILLI
    too_high = ratio * 1000 > bound.milli_value() if exact else ratio > bound.value()
    return f"{lead}, but provided ratio is {ratio:f}" if too_high else None


_OF_USAGE: Final[Checks] = (("min", _minimum), ("max", _maximum), ("maxLimitRequestRatio", _ratio))
_OF_CLAIMS: Final[Checks] = (("min", _minimum), ("max", _maximum_request))


_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_POD_LEVEL: Final = ("cpu", "memory")
# The field of the pod, and how the annotation calls what stands there.
_CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))


def admit_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    for limits in _applicable(attributes, old, view):
        defaults = container_defaults(limits)
        if any(defaults.values()):
            _fill_pod(new, defaults)
    return None


def validate_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    for limits in _applicable(attributes, old, view):
        problems = [text for limit in limits for text in _pod_problems(limit, new.get("spec") or {})]
        if problems:
            return attributes.forbidden(new, _aggregate(problems))
    return None


def validate_claim(
    attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    for limits in _applicable(attributes, old, view):
        requests = amounts((new.get("spec") or {}).get("resources"), "requests")
        problems = [
            text
            for limit in limits
            if limit.get("type") == "PersistentVolumeClaim"
            for text in limit_ranger.LimitRangeBounds(limit).claim_problems(requests)
        ]
        if problems:
            return attributes.forbidden(new, _aggregate(problems))
    return None


def _applicable(attributes: AdmissionAttributes, old: Object | None, view: ObjectLister) -> Iterator[list[Object]]:
    """The limits of each limit range in the namespace. Who is going away is left alone."""
    if old is not None and "deletionTimestamp" in old["metadata"]:
        return
    for each in view.list("limitranges", attributes.namespace):
        yield (each.get("spec") or {}).get("limits") or []


def _fill_pod(pod: Object, defaults: ContainerDefaults) -> None:
    """Containers and defaults are two sizes that clients choose: filling stops at the size of a stored object."""
    spec = dict(pod.get("spec") or {})
    notes: list[str] = []
    room = size_limits.MOST_BYTES
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
        bounds = limit_ranger.LimitRangeBounds(limit)
        for field, _ in _CONTAINERS:
            for container in spec.get(field) or ():
                resources = container.get("resources")
                yield from bounds.usage_problems(amounts(resources, "requests"), amounts(resources, "limits"))
    elif limit.get("type") == "Pod":
        bounds = limit_ranger.LimitRangeBounds(limit)
        yield from bounds.usage_problems(_pod_amounts(spec, "requests"), _pod_amounts(spec, "limits"))


def _pod_amounts(spec: Object, which: Which) -> Amounts:
    """The pod as a whole. Other than for scheduling, its overhead is not counted."""
    own = amounts(spec.get("resources"), which)
    return {**sum_containers(spec, which), **{name: own[name] for name in _POD_LEVEL if name in own}}


def _aggregate(problems: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
