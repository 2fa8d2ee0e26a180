"""Which names of a CustomResourceDefinition (CRD) are accepted, and when the CRD is established.

Within a group, plurals, singulars and short names must be unique, and so must kinds and list kinds. Names that no other
CRD has are accepted; in place of a name that is taken the CRD keeps the one that was accepted earlier. Once all names
are accepted the CRD is established, and stays established. A CRD in a group of the Kubernetes community also needs the
approval annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headgate.apimachinery.validation.apiextensions.names import approval, is_protected
from headgate.kube.conditions import find, is_true, with_condition
from headgate.kube.field_errors import quote

Object = dict[str, Any]

_RESOURCES: Final = ("plural", "singular")
_KINDS: Final = ("kind", "listKind")
_REASONS: Final = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


class TakenNames(NamedTuple):
    """The accepted names of a group. ``resources``: plurals, singulars and short names. ``kinds``: with list kinds."""

    resources: set[str]
    kinds: set[str]

    def add(self, names: Mapping[str, Any]) -> None:
        self.resources.update(names.get(field) or "" for field in _RESOURCES)
        self.resources.update(names.get("shortNames") or ())
        self.kinds.update(names.get(field) or "" for field in _KINDS)


def all_names_accepted(crd: Object) -> bool:
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    return bool(crd["spec"]["names"] == {name: value for name, value in accepted.items() if value})


def accept(crd: Object, taken: TakenNames, now: str) -> Object | None:
    """The new status of the CRD, with the names that are accepted now; None if nothing changes."""
    if all_names_accepted(crd):
        return None
    status = crd.get("status") or {}
    requested, accepted = crd["spec"]["names"], status.get("acceptedNames") or {}
    names, names_accepted = _accept_free_names(requested, accepted, taken)
    conditions = status.get("conditions") or []
    after = with_condition(conditions, names_accepted, now)
    if names == accepted and after is conditions:
        return None
    conditions = after
    established = _established(conditions, names_accepted)
    return {**status, "acceptedNames": names, "conditions": with_condition(conditions, established, now)}


def _accept_free_names(requested: Object, accepted: Object, taken: TakenNames) -> tuple[Object, Object]:
    """The names that are accepted now, and the condition NamesAccepted, which reports the last conflict."""
    names = dict(accepted)
    problem = ("NoConflicts", "no conflicts found")
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        used = taken.kinds if field in _KINDS else taken.resources
        conflict = (
            _short_conflict(requested, accepted, used)
            if field == "shortNames"
            else _conflict(requested, accepted, field, used)
        )
        if conflict:
            problem = (_REASONS[field], conflict)
        else:
            _copy(field, requested, names)
    _copy("categories", requested, names)
    reason, message = problem
    status = "True" if reason == "NoConflicts" else "False"
    return names, {"type": "NamesAccepted", "status": status, "reason": reason, "message": message}


def _copy(field: str, requested: Object, names: Object) -> None:
    names.pop(field, None)
    if requested.get(field):
        names[field] = requested[field]


def _conflict(requested: Object, accepted: Object, field: str, used: set[str]) -> str:
    name = requested.get(field) or ""
    return "" if name == (accepted.get(field) or "") or name not in used else f"{quote(name)} is already in use"


def _short_conflict(requested: Object, accepted: Object, used: set[str]) -> str:
    own = accepted.get("shortNames") or ()
    texts = [
        f"{quote(name)} is already in use"
        for name in requested.get("shortNames") or ()
        if name not in own and name in used
    ]
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _established(conditions: list[Object], names_accepted: Object) -> Object:
    """The condition Established in the write that sets NamesAccepted. :func:`establish` makes it true in the next."""
    old = find(conditions, "Established")
    if old is not None and old["status"] == "True":
        return old
    if names_accepted["status"] == "True":
        reason, message = "Installing", "the initial names have been accepted"
    elif old is not None:
        return old
    else:
        reason, message = "NotAccepted", "not all names are accepted"
    return {"type": "Established", "status": "False", "reason": reason, "message": message}


def approve(crd: Object, now: str) -> Object | None:
    """The new status of a CRD in a protected group, with the approval condition; None if nothing changes."""
    if not is_protected(crd["spec"]["group"]):
        return None
    status = crd.get("status") or {}
    conditions = status.get("conditions") or []
    state, message = approval(crd["metadata"].get("annotations") or {})
    condition = {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": "True" if state == "Approved" else "False",
        "reason": f"{state}Annotation",
        "message": message,
    }
    after = with_condition(conditions, condition, now)
    return None if after is conditions else {**status, "conditions": after}


def establish(crd: Object, now: str) -> Object | None:
    """The new status, with Established true; None if the names are not accepted or it is true already."""
    status = crd["status"]
    conditions = status.get("conditions") or []
    if is_true(conditions, "Established") or not is_true(conditions, "NamesAccepted"):
        return None
    established = {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    }
    return {**status, "conditions": with_condition(conditions, established, now)}
