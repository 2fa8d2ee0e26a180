"""LimitRanger: the LimitRanges of a namespace set default requests and limits, and limit those of pods and claims.

A pod is checked on create and on resize, a claim on every write. The defaults that were set are recorded in an
annotation of the pod. As in kube-apiserver, amounts are compared in thousandths if these fit in 64 bits, otherwise in
whole units; so an amount that is half a thousandth above the maximum is accepted. ``kube/pods/limit_ranges.py``
computes the defaults; ``plugin_table.py`` says when the plugin runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.structural.defaulting import TooManyDefaults
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.apiserver.kinds import size_limits
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts, Which, amounts, sum_containers
from headgate.kube.pods.limit_ranges import ContainerDefaults, container_defaults, fill_container
from headgate.kube.quantity import Quantity

_MAX_MILLI: Final = (2**63 - 1) // 1000

# Resource, type of the limit, bound, request and limit; returns the error text.
Check = Callable[[str, str, Quantity, "Quantity | None", "Quantity | None"], "str | None"]
Checks = tuple[tuple[str, Check], ...]  # each with the field of the bound


class LimitRangeBounds:
    """The bounds of one limit (an item of ``spec.limits``), checked for one container after the other.

    If a container has neither a request nor a limit for a bounded resource, the error text is the same for every
    container. It is reported once: the limit may have many resources and the pod many containers, and not all pairs are
    compared.
    """

    def __init__(self, limit: Object) -> None:
        self._scope: Final = limit.get("type") or ""
        self._bounds: Final[dict[str, dict[str, Quantity]]] = {
            field: {name: quantity.amount(text) for name, text in sorted((limit.get(field) or {}).items())}
            for field in ("min", "max", "maxLimitRequestRatio")
        }
        # The resources whose absence in a container has not been reported yet.
        self._unreported: Final = {field: dict.fromkeys(bounds) for field, bounds in self._bounds.items()}

    def usage_problems(self, requests: Amounts, limits: Amounts) -> Iterator[str]:
        """Problems of a container or a pod, which have requests and limits."""
        return self._problems(_USAGE_CHECKS, requests, limits)

    def claim_problems(self, requests: Amounts) -> Iterator[str]:
        """Problems of a claim, which has requests only."""
        return self._problems(_CLAIM_CHECKS, requests, {})

    def _problems(self, checks: Checks, requests: Amounts, limits: Amounts) -> Iterator[str]:
        given = requests.keys() | limits.keys()
        for field, check in checks:
            bounds, unreported = self._bounds[field], self._unreported[field]
            missing = [name for name in unreported if name not in given]
            for name in missing:
                del unreported[name]
            for name in sorted((*missing, *(each for each in given if each in bounds))):
                problem = check(name, self._scope, bounds[name], requests.get(name), limits.get(name))
                if problem is not None:
                    yield problem


def _comparable(*amounts: Quantity | None) -> list[int]:
    """The amounts in thousandths; in whole units if one of them is too large for that. None is zero."""
    units = [0 if each is None else each.value() for each in amounts]
    if any(each > _MAX_MILLI for each in units):
        return units
    return [0 if each is None else each.milli_value() for each in amounts]


def _minimum(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    requested, limited, minimum = _comparable(request, limit, bound)
    prefix = f"minimum {name} usage per {scope} is {bound}"
    if request is None:
        return f"{prefix}.  No request is specified"
    if requested < minimum:
        return f"{prefix}, but request is {request}"
    if limit is not None and limited < minimum:
        return f"{prefix}, but limit is {limit}"
    return None


def _maximum(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    requested, limited, maximum = _comparable(request, limit, bound)
    prefix = f"maximum {name} usage per {scope} is {bound}"
    if limit is None:
        return f"{prefix}.  No limit is specified"
    if limited > maximum:
        return f"{prefix}, but limit is {limit}"
    if request is not None and requested > maximum:
        return f"{prefix}, but request is {request}"
    return None


def _maximum_request(
    name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str | None:
    requested, maximum = _comparable(request, bound)
    prefix = f"maximum {name} usage per {scope} is {bound}"
    if request is None:
        return f"{prefix}.  No request is specified"
    return f"{prefix}, but request is {request}" if requested > maximum else None


def _ratio(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    requested, limited, _ = _comparable(request, limit, bound)
    prefix = f"{name} max limit to request ratio per {scope} is {bound}"
    if not requested:
        return f"{prefix}, but no request is specified or request is 0"
    if not limited:
        return f"{prefix}, but no limit is specified or limit is 0"
    ratio = limited / requested
    exact = bound.value() <= _MAX_MILLI
    too_high = ratio * 1000 > bound.milli_value() if exact else ratio > bound.value()
    return f"{prefix}, but provided ratio is {ratio:f}" if too_high else None


_USAGE_CHECKS: Final[Checks] = (("min", _minimum), ("max", _maximum), ("maxLimitRequestRatio", _ratio))
_CLAIM_CHECKS: Final[Checks] = (("min", _minimum), ("max", _maximum_request))


_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_POD_LEVEL: Final = ("cpu", "memory")
# The field of the pod, and its name in the annotation.
_CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))


def admit_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    for limits in _applicable(attributes, old, lister):
        defaults = container_defaults(limits)
        if any(defaults.values()):
            _fill_pod(new, defaults)
    return None


def validate_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    for limits in _applicable(attributes, old, lister):
        problems = [text for limit in limits for text in _pod_problems(limit, new.get("spec") or {})]
        if problems:
            return attributes.forbidden(new, _aggregate(problems))
    return None


def validate_claim(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    for limits in _applicable(attributes, old, lister):
        requests = amounts((new.get("spec") or {}).get("resources"), "requests")
        problems = [
            text
            for limit in limits
            if limit.get("type") == "PersistentVolumeClaim"
            for text in LimitRangeBounds(limit).claim_problems(requests)
        ]
        if problems:
            return attributes.forbidden(new, _aggregate(problems))
    return None


def _applicable(attributes: AdmissionAttributes, old: Object | None, lister: ObjectLister) -> Iterator[list[Object]]:
    """The limits of each LimitRange in the namespace. An object that is being deleted is not checked."""
    if old is not None and "deletionTimestamp" in old["metadata"]:
        return
    for each in lister.list("limitranges", attributes.namespace):
        yield (each.get("spec") or {}).get("limits") or []


def _fill_pod(pod: Object, defaults: ContainerDefaults) -> None:
    """Adds the defaults to all containers. Their total size is limited to that of an object, because clients choose the
    number of containers and of defaults."""
    spec = dict(pod.get("spec") or {})
    notes: list[str] = []
    free_bytes = size_limits.MAX_BYTES
    for field, word in _CONTAINERS:
        containers = spec.get(field)
        if not containers:
            continue
        spec[field] = filled = []
        for container in containers:
            resources = dict(container.get("resources") or {})
            for note in fill_container(resources, defaults):
                notes.append(f"{note} for {word} {container.get('name', '')}")
                free_bytes -= len(note)
            if free_bytes < 0:
                raise TooManyDefaults
            filled.append({**container, "resources": resources})
    if notes:
        metadata = pod["metadata"]
        text = "LimitRanger plugin set: " + "; ".join(notes)
        pod["spec"] = spec
        pod["metadata"] = {**metadata, "annotations": {**(metadata.get("annotations") or {}), _ANNOTATION: text}}


def _pod_problems(limit: Object, spec: Object) -> Iterator[str]:
    if limit.get("type") == "Container":
        bounds = LimitRangeBounds(limit)
        for field, _ in _CONTAINERS:
            for container in spec.get(field) or ():
                resources = container.get("resources")
                yield from bounds.usage_problems(amounts(resources, "requests"), amounts(resources, "limits"))
    elif limit.get("type") == "Pod":
        bounds = LimitRangeBounds(limit)
        yield from bounds.usage_problems(_pod_amounts(spec, "requests"), _pod_amounts(spec, "limits"))


def _pod_amounts(spec: Object, which: Which) -> Amounts:
    """The amounts of the whole pod, without its overhead (which scheduling counts)."""
    own = amounts(spec.get("resources"), which)
    return {**sum_containers(spec, which), **{name: own[name] for name in _POD_LEVEL if name in own}}


def _aggregate(problems: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
