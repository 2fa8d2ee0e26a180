"""RuntimeClass: a pod gets its overhead and scheduling constraints from the RuntimeClass that it names.

An overhead in the pod must be equal to that of the class. Node selector and tolerations of the class are added to the
pod's; a toleration that another one covers is dropped, the pod's own included.
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
_UNFOUNDED: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def admit_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    found = _class_of(attributes, new, view)
    if found is None or isinstance(found, api_errors.StatusError):
        return found
    return _set_overhead(attributes, new, found) or _set_scheduling(attributes, new, found)


def validate_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    """Once more at the end: plugins in between may have changed the pod."""
    found = _class_of(attributes, new, view)
    if isinstance(found, api_errors.StatusError):
        return found
    overhead = (new.get("spec") or {}).get("overhead")
    if found is None or found.get("overhead") is None:
        return attributes.forbidden(new, _UNFOUNDED) if overhead is not None else None
    return None if _amounts(overhead) == _amounts(_fixed(found)) else attributes.forbidden(new, _MISMATCH)


def _class_of(
    attributes: AdmissionAttributes, new: Object, view: ObjectLister
) -> Object | api_errors.StatusError | None:
    """The class that the pod names, if it names one; or why there is none."""
    name = (new.get("spec") or {}).get("runtimeClassName")
    if name is None:
        return None
    if name == "":
        # The real server fails to even look such a name up, and says so without a reason.
        return api_errors.unknown_error("resource name may not be empty")
    found = view.get(_CLASSES, "", name)
    return attributes.forbidden(new, f"pod rejected: RuntimeClass {quote(name)} not found") if found is None else found


def _set_overhead(attributes: AdmissionAttributes, new: Object, found: Object) -> api_errors.StatusError | None:
    if found.get("overhead") is None:
        return None
    spec, fixed = new["spec"], _fixed(found)
    given = spec.get("overhead")
    if given and _amounts(given) != _amounts(fixed):
        return attributes.forbidden(new, _MISMATCH)
    spec = {field: value for field, value in spec.items() if field != "overhead"}
    new["spec"] = {**spec, "overhead": dict(fixed)} if fixed else spec
    return None


def _fixed(found: Object) -> Mapping[str, Any]:
    fixed: Mapping[str, Any] = (found.get("overhead") or {}).get("podFixed") or {}
    return fixed


def _amounts(overhead: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: quantity.amount(value) for name, value in (overhead or {}).items()}


def _set_scheduling(attributes: AdmissionAttributes, new: Object, found: Object) -> api_errors.StatusError | None:
    scheduling = found.get("scheduling")
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
    """Those that no other one covers; of equal ones the first."""
    later = _Tolerated()
    covered_later = []
    for each in reversed(tolerations):
        covered_later.append(later.covers(each, but_itself=True))
        later.add(each)
    covered_later.reverse()
    before, kept = _Tolerated(), []
    for each, covered in zip(tolerations, covered_later, strict=True):
        if not covered and not before.covers(each):
            before.add(each)
            kept.append(each)
    return kept


class _Tolerated:
    """Tolerations by what they tolerate. Those that tolerate the same differ only in how long they do."""

    def __init__(self) -> None:
        self._same: set[bytes] = set()
        self._longest: dict[_Meaning, list[tuple[float, bytes]]] = {}  # at most two, the longest first

    def add(self, toleration: Object) -> None:
        text = _text_of(toleration)
        self._same.add(text)
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

    def covers(self, narrow: Object, *, but_itself: bool = False) -> bool:
        """Whether one of these tolerates everything that ``narrow`` does; ``but_itself``: one that is not its equal."""
        text = _text_of(narrow)
        if not but_itself and text in self._same:
            return True
        key, effect, seconds = narrow.get("key") or "", narrow.get("effect") or "", narrow.get("tolerationSeconds")
        meanings: list[tuple[str, str | None]] = [(key, None), ("", None)]
        if narrow.get("operator") == "Equal":
            meanings.append((key, narrow.get("value") or ""))
        return any(
            (limit == inf or (seconds is not None and seconds <= limit)) and not (but_itself and other == text)
            for name, value in meanings
            for which in {"", effect}
            for limit, other in self._longest.get((name, value, which), ())
        )


_Meaning = tuple[str, str | None, str]  # key, value (None: any) and effect
_text_of: Final = msgspec.json.Encoder(order="sorted").encode
