"""Validation of ResourceFlavor, ClusterQueue, Cohort and LocalQueue beyond their schemas, with Kueue's messages.

Each rule is a small function from an object in v1beta2 to field errors. A ResourceFlavor's labels, taints and
tolerations must be valid for nodes and pods. ``unsupported.py`` rejects unsupported fields; ``validation.py`` calls the
rules and decides what an update may keep.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, invalid_without_value, not_supported
from headgate.kube.lenient_reader import Object, find_object, find_objects, find_strings, find_text, find_texts
from headgate.kube.names import is_qualified_name
from headgate.kube.quantity import Quantity
from headgate.kube.validation.labels import validate_label_selector, validate_labels
from headgate.kube.validation.taints import validate_taints, validate_tolerations
from headgate.kube.validation.values import NEGATIVE, validate_immutable, validate_text
from headgate.quota.names import BACKFILL, DEQUEUE_STRATEGY, NEVER, TRY_NEXT_FLAVOR


def resource_flavor_problems(obj: Object) -> FieldErrors:
    spec = find_object(obj, "spec")
    found = validate_labels(find_texts(spec, "nodeLabels"), "spec.nodeLabels")
    found += validate_taints([each for _, each in find_objects(spec, "nodeTaints", "")], "spec.nodeTaints")
    return found + validate_tolerations([each for _, each in find_objects(spec, "tolerations", "")], "spec.tolerations")


_MAX_COUNT: Final = 256
_MAX_PAIRS: Final = 512
_GROUPS: Final = "spec.resourceGroups"
_SMALLEST_WEIGHT_NANO: Final = 1


class _Owner(msgspec.Struct, frozen=True):
    """The object that has the resource groups: a ClusterQueue or a Cohort. ``parent``: what messages call its parent.
    ``lends_own``: it can lend only its own quota, so the lending limit may not exceed the nominal quota."""

    has_parent: bool
    parent: str
    lends_own: bool


def cluster_queue_problems(obj: Object) -> FieldErrors:
    spec = find_object(obj, "spec")
    found = _resource_group_problems(spec, _Owner(bool(find_text(spec, "cohortName")), "cohort", lends_own=True))
    found += validate_label_selector(find_object(spec, "namespaceSelector"), "spec.namespaceSelector")
    found += _preemption_problems(find_object(spec, "preemption"))
    found += _fungibility_problems(find_object(spec, "flavorFungibility"))
    found += _fair_sharing_problems(spec)
    found += _check_totals(spec)
    return found + _check_flavors(spec) + _strategy_problems(obj)


def _strategy_problems(obj: Object) -> FieldErrors:
    value = find_object(obj, "metadata", "annotations").get(DEQUEUE_STRATEGY)
    if value is None or value == BACKFILL:
        return []
    return [not_supported(f"metadata.annotations[{DEQUEUE_STRATEGY}]", value, [BACKFILL])]


def cohort_problems(obj: Object) -> FieldErrors:
    spec = find_object(obj, "spec")
    owner = _Owner(bool(find_text(spec, "parentName")), "parent", lends_own=False)
    return _fair_sharing_problems(spec) + _resource_group_problems(spec, owner)


def local_queue_problems(obj: Object) -> FieldErrors:
    return _fair_sharing_problems(find_object(obj, "spec"))


def local_queue_update_problems(new: Object, old: Object) -> FieldErrors:
    after, before = (find_object(each, "spec").get("clusterQueue") for each in (new, old))
    return validate_immutable(after, before, "spec.clusterQueue") if before is not None else []


def _resource_group_problems(spec: Object, owner: _Owner) -> FieldErrors:
    found: FieldErrors = []
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for path, group in find_objects(spec, "resourceGroups", "spec"):
        covered = find_strings(group, "coveredResources")
        for index, name in enumerate(covered):
            at = f"{path}.coveredResources[{index}]"
            found += validate_text(is_qualified_name, name, at)
            found += [duplicate(at, name)] if name in seen_resources else []
            seen_resources.add(name)
        for at, flavor in find_objects(group, "flavors", path):
            name = find_text(flavor, "name")
            found += _quota_problems(flavor, covered, owner, at)
            found += [duplicate(f"{at}.name", name)] if name in seen_flavors else []
            seen_flavors.add(name)
        if any(
            len(flavor.get("resources") or ()) != len(covered) for _, flavor in find_objects(group, "flavors", path)
        ):
            found.append(
                invalid_without_value(path, "flavors must have the same number of resources as the coveredResources")
            )
    return found


def _quota_problems(flavor: Object, covered: list[str], owner: _Owner, path: str) -> FieldErrors:
    found: FieldErrors = []
    for (at, quota), resource in zip(find_objects(flavor, "resources", path), covered, strict=False):
        name = find_text(quota, "name")
        if name != resource:
            found.append(invalid(f"{at}.name", name, "must match the name in coveredResources"))
        nominal = _amount(quota.get("nominalQuota"))
        found += _negative_amount_problems(nominal, f"{at}.nominalQuota")
        borrowing, lending = _amount(quota.get("borrowingLimit")), _amount(quota.get("lendingLimit"))
        found += _limit_problems(borrowing, owner, f"{at}.borrowingLimit") + _limit_problems(
            lending, owner, f"{at}.lendingLimit"
        )
        if owner.lends_own and lending is not None and nominal is not None and lending.nano > nominal.nano:
            detail = "must be less than or equal to the nominalQuota"
            found.append(invalid(f"{at}.lendingLimit", lending.canonical, detail))
    return found


def _limit_problems(limit: Quantity | None, owner: _Owner, path: str) -> FieldErrors:
    """Without a parent there is no quota to borrow or lend, so a limit is an error."""
    if limit is None:
        return []
    without_parent = (
        [] if owner.has_parent else [invalid(path, limit.canonical, f"must be nil when {owner.parent} is empty")]
    )
    return without_parent + _negative_amount_problems(limit, path)


def _preemption_problems(preemption: Object) -> FieldErrors:
    borrowing = find_object(preemption, "borrowWithinCohort")
    policy = find_text(borrowing, "policy") or NEVER
    if (find_text(preemption, "reclaimWithinCohort") or NEVER) == NEVER and policy != NEVER:
        return [
            invalid_without_value("spec.preemption", "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")
        ]
    return []


def _fungibility_problems(fungibility: Object) -> FieldErrors:
    preference = find_text(fungibility, "preference")
    chosen = {find_text(fungibility, "whenCanBorrow"), find_text(fungibility, "whenCanPreempt")}
    if not preference or chosen == {TRY_NEXT_FLAVOR}:
        return []
    detail = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
    return [invalid("spec.flavorFungibility.preference", preference, detail)]


def _fair_sharing_problems(spec: Object) -> FieldErrors:
    weight = _amount(find_object(spec, "fairSharing").get("weight"))
    if weight is None:
        return []
    found = _negative_amount_problems(weight, "spec.fairSharing")
    if 0 < weight.nano <= _SMALLEST_WEIGHT_NANO:
        found.append(invalid("spec.fairSharing", weight.canonical, "When not 0, weight must be > 10e-9"))
    return found


def _check_totals(spec: Object) -> FieldErrors:
    groups = list(find_objects(spec, "resourceGroups", "spec"))
    flavors = sum(len(list(find_objects(group, "flavors", ""))) for _, group in groups)
    resources = sum(len(find_strings(group, "coveredResources")) for _, group in groups)
    found: FieldErrors = []
    for count, words in ((flavors, "flavors"), (resources, "covered resources")):
        if count > _MAX_COUNT:
            detail = f"total number of {words} across all resourceGroups must be ≤ {_MAX_COUNT}, got {count}"
            found.append(invalid(_GROUPS, count, detail))
    for path, group in groups:
        pairs = sum(
            len(list(find_objects(flavor, "resources", ""))) for _, flavor in find_objects(group, "flavors", "")
        )
        if pairs > _MAX_PAIRS:
            detail = f"number of flavor-resource combinations in a resourceGroup must be ≤ {_MAX_PAIRS}, got {pairs}"
            found.append(invalid(path, pairs, detail))
    return found


def _check_flavors(spec: Object) -> FieldErrors:
    """The flavors of admission checks must be flavors of this queue."""
    known = {
        find_text(flavor, "name")
        for _, group in find_objects(spec, "resourceGroups", "")
        for _, flavor in find_objects(group, "flavors", "")
    }
    strategy = find_object(spec, "admissionChecksStrategy")
    return [
        not_supported(f"{path}.onFlavors[{index}]", flavor, sorted(known))
        for path, check in find_objects(strategy, "admissionChecks", "spec.admissionChecksStrategy")
        for index, flavor in enumerate(find_strings(check, "onFlavors"))
        if flavor not in known
    ]


def _amount(value: Any) -> Quantity | None:
    """None if it is absent or invalid; the schema reports the latter."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        return None
    found = quantity.parse(value)
    return found if isinstance(found, Quantity) else None


def _negative_amount_problems(amount: Quantity | None, path: str) -> FieldErrors:
    return [invalid(path, amount.canonical, NEGATIVE)] if amount is not None and amount.nano < 0 else []
