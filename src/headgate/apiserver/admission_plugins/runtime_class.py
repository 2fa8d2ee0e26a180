"""RuntimeClass: a pod gets its overhead and scheduling constraints from the RuntimeClass that it names.

An overhead in the pod must be equal to that of the class. The node selector and the tolerations of the class are added
to those of the pod. A toleration that another one covers is removed, also if it is one of the pod itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from operator import itemgetter
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.kube import quantity, taints
from headgate.kube.field_errors import quote
from headgate.kube.quantity import Quantity

_CLASSES: Final = "runtimeclasses.node.k8s.io"
_MISMATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_NO_CLASS_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def admit_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    runtime_class = _class_of(attributes, new, lister)
    if runtime_class is None or isinstance(runtime_class, api_errors.StatusError):
        return runtime_class
    return _set_overhead(attributes, new, runtime_class) or _set_scheduling(attributes, new, runtime_class)


def validate_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    """Checks again, because later plugins may have changed the pod."""
    runtime_class = _class_of(attributes, new, lister)
    if isinstance(runtime_class, api_errors.StatusError):
        return runtime_class
    overhead = (new.get("spec") or {}).get("overhead")
    if runtime_class is None or runtime_class.get("overhead") is None:
        return attributes.forbidden(new, _NO_CLASS_OVERHEAD) if overhead is not None else None
    return None if _amounts(overhead) == _amounts(_pod_fixed(runtime_class)) else attributes.forbidden(new, _MISMATCH)


def _class_of(
    attributes: AdmissionAttributes, new: Object, lister: ObjectLister
) -> Object | api_errors.StatusError | None:
    """The class that the pod names, None if it names none, or an error."""
    name = (new.get("spec") or {}).get("runtimeClassName")
    if name is None:
        return None
    if name == "":
        # kube-apiserver cannot look up an empty name, and returns an error without a reason.
        return api_errors.unknown_error("resource name may not be empty")
    runtime_class = lister.get(_CLASSES, "", name)
    return (
        attributes.forbidden(new, f"pod rejected: RuntimeClass {quote(name)} not found")
        if runtime_class is None
        else runtime_class
    )


def _set_overhead(attributes: AdmissionAttributes, new: Object, runtime_class: Object) -> api_errors.StatusError | None:
    if runtime_class.get("overhead") is None:
        return None
    spec, fixed = new["spec"], _pod_fixed(runtime_class)
    given = spec.get("overhead")
    if given and _amounts(given) != _amounts(fixed):
        return attributes.forbidden(new, _MISMATCH)
    spec = {field: value for field, value in spec.items() if field != "overhead"}
    new["spec"] = {**spec, "overhead": dict(fixed)} if fixed else spec
    return None


def _pod_fixed(runtime_class: Object) -> Mapping[str, Any]:
    fixed: Mapping[str, Any] = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    return fixed


def _amounts(overhead: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: quantity.amount(value) for name, value in (overhead or {}).items()}


def _set_scheduling(
    attributes: AdmissionAttributes, new: Object, runtime_class: Object
) -> api_errors.StatusError | None:
    scheduling = runtime_class.get("scheduling")
    if scheduling is None:
        return None
    spec = new["spec"]
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in sorted((scheduling.get("nodeSelector") or {}).items()):
        own = selector.setdefault(key, value)
        if own != value:
            text = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            return attributes.forbidden(new, f"conflict: {text}")
    spec = {**spec}
    if selector:
        spec["nodeSelector"] = selector
    tolerations = [*(spec.get("tolerations") or ()), *(dict(each) for each in scheduling.get("tolerations") or ())]
    if tolerations:
        spec["tolerations"] = _without_covered(tolerations)
    new["spec"] = spec
    return None


def _without_covered(tolerations: list[Object]) -> list[Object]:
    """The tolerations that no other toleration covers; of several equal ones, only the first.

    A toleration is removed if a different later one covers it, or an earlier one that is kept covers or equals it.
    """
    later = _TolerationSet()
    covered_later = []
    for each in reversed(tolerations):
        covered_later.append(later.covers(each, except_equal=True))
        later.add(each)
    covered_later.reverse()
    before, kept = _TolerationSet(), []
    for each, covered in zip(tolerations, covered_later, strict=True):
        if not covered and not before.covers(each):
            before.add(each)
            kept.append(each)
    return kept


class _TolerationSet:
    """Tolerations, to find out whether one of them covers another toleration.

    Tolerations with the same :data:`_TolerationKey` differ only in ``tolerationSeconds``, so the longest ones suffice:
    two of them, because ``covers`` may ignore one that is equal to its argument.
    """

    def __init__(self) -> None:
        self._texts: set[bytes] = set()
        self._longest: dict[_TolerationKey, list[tuple[float, bytes]]] = {}  # seconds and text, the longest first

    def add(self, toleration: Object) -> None:
        text = _text_of(toleration)
        self._texts.add(text)
        operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
        value = (toleration.get("value") or "") if operator == "Equal" else None
        seconds = toleration.get("tolerationSeconds") if effect == taints.NO_EXECUTE else None
        if operator in ("Equal", "Exists"):
            longest = self._longest.setdefault((toleration.get("key") or "", value, effect), [])
            entry = (inf if seconds is None else seconds, text)
            if entry not in longest:
                longest.append(entry)
                longest.sort(key=itemgetter(0), reverse=True)
                del longest[2:]

    def covers(self, toleration: Object, *, except_equal: bool = False) -> bool:
        """Whether a toleration in the set covers this one. ``except_equal``: equal tolerations do not count."""
        text = _text_of(toleration)
        if not except_equal and text in self._texts:
            return True
        key, effect, seconds = (
            toleration.get("key") or "",
            toleration.get("effect") or "",
            toleration.get("tolerationSeconds"),
        )
        keys: list[tuple[str, str | None]] = [(key, None), ("", None)]
        if toleration.get("operator") == "Equal":
            keys.append((key, toleration.get("value") or ""))
        return any(
            (limit == inf or (seconds is not None and seconds <= limit)) and not (except_equal and other == text)
            for name, value in keys
            for which in {"", effect}
            for limit, other in self._longest.get((name, value, which), ())
        )


_TolerationKey = tuple[str, str | None, str]  # key, value (None: any) and effect
_text_of: Final = msgspec.json.Encoder(order="sorted").encode
