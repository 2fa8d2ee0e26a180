"""Which names a definition is accepted under, and when it is established.

Within a group, a plural, a singular and a short name are unique, and so are a kind and a list kind. Free names are
accepted; for the others the definition keeps its earlier ones. Once all names are accepted the definition is
established, and stays established. A group of the Kubernetes community also needs the approval annotation.
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
    resources: set[str]
    kinds: set[str]

    def add(self, names: Mapping[str, Any]) -> None:
        self.resources.update(names.get(field) or "" for field in _RESOURCES)
        self.resources.update(names.get("shortNames") or ())
        self.kinds.update(names.get(field) or "" for field in _KINDS)


def all_names_accepted(definition: Object) -> bool:
    accepted = (definition.get("status") or {}).get("acceptedNames") or {}
    return bool(definition["spec"]["names"] == {name: value for name, value in accepted.items() if value})


def accept(definition: Object, taken: TakenNames, now: str) -> Object | None:
    """The status with the accepted names; None if nothing changes."""
    if all_names_accepted(definition):
        return None
    status = definition.get("status") or {}
    wanted, accepted = definition["spec"]["names"], status.get("acceptedNames") or {}
    names, condition = _decide(wanted, accepted, taken)
    conditions = status.get("conditions") or []
    after = with_condition(conditions, condition, now)
    if names == accepted and after is conditions:
        return None
    conditions = after
    established = _established(conditions, condition)
    return {**status, "acceptedNames": names, "conditions": with_condition(conditions, established, now)}


def _decide(wanted: Object, accepted: Object, taken: TakenNames) -> tuple[Object, Object]:
    names = dict(accepted)
    problem = ("NoConflicts", "no conflicts found")
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        used = taken.kinds if field in _KINDS else taken.resources
        conflict = (
            _short_conflict(wanted, accepted, used)
            if field == "shortNames"
            else _conflict(wanted, accepted, field, used)
        )
        if conflict:
            problem = (_REASONS[field], conflict)
        else:
            _copy(field, wanted, names)
    _copy("categories", wanted, names)
    reason, message = problem
    status = "True" if reason == "NoConflicts" else "False"
    return names, {"type": "NamesAccepted", "status": status, "reason": reason, "message": message}


def _copy(field: str, wanted: Object, names: Object) -> None:
    names.pop(field, None)
    if wanted.get(field):
        names[field] = wanted[field]


def _conflict(wanted: Object, accepted: Object, field: str, used: set[str]) -> str:
    name = wanted.get(field) or ""
    return "" if name == (accepted.get(field) or "") or name not in used else f"{quote(name)} is already in use"


def _short_conflict(wanted: Object, accepted: Object, used: set[str]) -> str:
    own = accepted.get("shortNames") or ()
    texts = [
        f"{quote(name)} is already in use"
        for name in wanted.get("shortNames") or ()
        if name not in own and name in used
    ]
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _established(conditions: list[Object], accepted: Object) -> Object:
    """The condition Established, which becomes true only in a separate write."""
    old = find(conditions, "Established")
    if old is not None and old["status"] == "True":
        return old
    if accepted["status"] == "True":
        reason, message = "Installing", "the initial names have been accepted"
    elif old is not None:
        return old
    else:
        reason, message = "NotAccepted", "not all names are accepted"
    return {"type": "Established", "status": "False", "reason": reason, "message": message}


def approve(definition: Object, now: str) -> Object | None:
    """The status with the approval of a protected group; None if nothing changes."""
    if not is_protected(definition["spec"]["group"]):
        return None
    status = definition.get("status") or {}
    conditions = status.get("conditions") or []
    state, message = approval(definition["metadata"].get("annotations") or {})
    condition = {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": "True" if state == "Approved" else "False",
        "reason": f"{state}Annotation",
        "message": message,
    }
    after = with_condition(conditions, condition, now)
    return None if after is conditions else {**status, "conditions": after}


def establish(definition: Object, now: str) -> Object | None:
    """The status of a definition whose names have just been accepted; None if it is not at that point."""
    status = definition["status"]
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
