"""RuntimeClass: a pod takes its runtime's overhead and scheduling hints from the class that it names.

The overhead is never the pod's own word: it must be what the class says. Node selector and tolerations of the class
are added to the pod's; a toleration that another one covers is dropped, the pod's own included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.apiserver.builtin.attributes import Attributes, Object, View
from headgate.kube import quantity, status, taints
from headgate.kube.errors import quote
from headgate.kube.quantity import Quantity

_CLASSES: Final = "runtimeclasses.node.k8s.io"
_MISMATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_UNFOUNDED: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def admit_new_pod(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    found = _class_of(attributes, new, view)
    if found is None or isinstance(found, status.ApiError):
        return found
    return _set_overhead(attributes, new, found) or _set_scheduling(attributes, new, found)


def validate_new_pod(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    """Once more at the end: plugins in between may have changed the pod."""
    found = _class_of(attributes, new, view)
    if isinstance(found, status.ApiError):
        return found
    overhead = (new.get("spec") or {}).get("overhead")
    if found is None or found.get("overhead") is None:
        return attributes.forbidden(new, _UNFOUNDED) if overhead is not None else None
    return None if _amounts(overhead) == _amounts(_fixed(found)) else attributes.forbidden(new, _MISMATCH)


def _class_of(attributes: Attributes, new: Object, view: View) -> Object | status.ApiError | None:
    """The class that the pod names, if it names one; or why there is none."""
    name = (new.get("spec") or {}).get("runtimeClassName")
    if name is None:
        return None
    if name == "":
        # The real server fails to even look such a name up, and says so without a reason.
        return status.unknown_error("resource name may not be empty")
    found = view.get(_CLASSES, "", name)
    return attributes.forbidden(new, f"pod rejected: RuntimeClass {quote(name)} not found") if found is None else found


def _set_overhead(attributes: Attributes, new: Object, found: Object) -> status.ApiError | None:
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


def _set_scheduling(attributes: Attributes, new: Object, found: Object) -> status.ApiError | None:
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
    kept: list[Object] = []
    for index, each in enumerate(tolerations):
        if any(_covers(other, each) for other in kept):
            continue
        if not any(other != each and _covers(other, each) for other in tolerations[index + 1 :]):
            kept.append(each)
    return kept


def _covers(wide: Object, narrow: Object) -> bool:
    """Whether ``wide`` tolerates everything that ``narrow`` does."""
    if wide == narrow:
        return True
    key, operator = wide.get("key") or "", wide.get("operator") or "Equal"
    if (narrow.get("key") or "") != key and not (not key and operator == "Exists"):
        return False
    effect = wide.get("effect") or ""
    if effect and (narrow.get("effect") or "") != effect:
        return False
    if effect == taints.NO_EXECUTE and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        return narrow.get("operator") == "Equal" and (narrow.get("value") or "") == (wide.get("value") or "")
    return operator == "Exists"
