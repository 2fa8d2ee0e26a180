"""What a ClusterQueue, a Cohort or a LocalQueue may say, beyond what their schemas tell: in Kueue's words.

Each rule is a small function from an object in v1beta2 to field errors. What nobody here acts on is
``unsupported.py``'s; who asks, and what an update may keep, is ``rules.py``'s.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.errors import FieldErrors, duplicate, invalid, not_supported, unfit
from headgate.kube.names import is_qualified_name
from headgate.kube.quantity import Quantity
from headgate.kube.validation.labels import validate_label_selector
from headgate.kube.validation.values import NEGATIVE, follows, immutable
from headgate.quota.kinds.lenient import Object, listed, part, parts, text
from headgate.quota.names import NEVER, TRY_NEXT_FLAVOR

_MOST: Final = 256
_MOST_PAIRS: Final = 512
_GROUPS: Final = "spec.resourceGroups"
_SMALLEST_WEIGHT_NANO: Final = 1


class _Owner(msgspec.Struct, frozen=True):
    """Whose groups they are. ``lends_own``: it lends nothing but what is nominally its own."""

    has_parent: bool
    parent: str
    lends_own: bool


def cluster_queue_problems(obj: Object) -> FieldErrors:
    spec = part(obj, "spec")
    found = _resource_groups(spec, _Owner(bool(text(spec, "cohortName")), "cohort", lends_own=True))
    found += validate_label_selector(part(spec, "namespaceSelector"), "spec.namespaceSelector")
    found += _preemption(part(spec, "preemption"))
    found += _fungibility(part(spec, "flavorFungibility"))
    found += _fair_sharing(spec)
    found += _totals(spec)
    return found + _check_flavors(spec)


def cohort_problems(obj: Object) -> FieldErrors:
    spec = part(obj, "spec")
    owner = _Owner(bool(text(spec, "parentName")), "parent", lends_own=False)
    return _fair_sharing(spec) + _resource_groups(spec, owner)


def local_queue_problems(obj: Object) -> FieldErrors:
    return _fair_sharing(part(obj, "spec"))


def local_queue_changes(new: Object, old: Object) -> FieldErrors:
    after, before = (part(each, "spec").get("clusterQueue") for each in (new, old))
    return immutable(after, before, "spec.clusterQueue") if before is not None else []


def _resource_groups(spec: Object, owner: _Owner) -> FieldErrors:
    found: FieldErrors = []
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for path, group in parts(spec, "resourceGroups", "spec"):
        covered = listed(group, "coveredResources")
        for index, name in enumerate(covered):
            at = f"{path}.coveredResources[{index}]"
            found += follows(is_qualified_name, name, at)
            found += [duplicate(at, name)] if name in seen_resources else []
            seen_resources.add(name)
        for at, flavor in parts(group, "flavors", path):
            name = text(flavor, "name")
            found += _quotas(flavor, covered, owner, at)
            found += [duplicate(f"{at}.name", name)] if name in seen_flavors else []
            seen_flavors.add(name)
        if any(len(flavor.get("resources") or ()) != len(covered) for _, flavor in parts(group, "flavors", path)):
            found.append(unfit(path, "flavors must have the same number of resources as the coveredResources"))
    return found


def _quotas(flavor: Object, covered: list[str], owner: _Owner, path: str) -> FieldErrors:
    found: FieldErrors = []
    for (at, quota), resource in zip(parts(flavor, "resources", path), covered, strict=False):
        name = text(quota, "name")
        if name != resource:
            found.append(invalid(f"{at}.name", name, "must match the name in coveredResources"))
        nominal = _amount(quota.get("nominalQuota"))
        found += _not_negative(nominal, f"{at}.nominalQuota")
        borrowing, lending = _amount(quota.get("borrowingLimit")), _amount(quota.get("lendingLimit"))
        found += _limit(borrowing, owner, f"{at}.borrowingLimit") + _limit(lending, owner, f"{at}.lendingLimit")
        if owner.lends_own and lending is not None and nominal is not None and lending.nano > nominal.nano:
            text_ = "must be less than or equal to the nominalQuota"
            found.append(invalid(f"{at}.lendingLimit", lending.canonical, text_))
    return found


def _limit(limit: Quantity | None, owner: _Owner, path: str) -> FieldErrors:
    """A limit says how much is shared with others, so there must be others."""
    if limit is None:
        return []
    alone = [] if owner.has_parent else [invalid(path, limit.canonical, f"must be nil when {owner.parent} is empty")]
    return alone + _not_negative(limit, path)


def _preemption(preemption: Object) -> FieldErrors:
    borrowing = part(preemption, "borrowWithinCohort")
    policy = text(borrowing, "policy") or NEVER
    if (text(preemption, "reclaimWithinCohort") or NEVER) == NEVER and policy != NEVER:
        return [unfit("spec.preemption", "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")]
    return []


def _fungibility(fungibility: Object) -> FieldErrors:
    preference = text(fungibility, "preference")
    chosen = {text(fungibility, "whenCanBorrow"), text(fungibility, "whenCanPreempt")}
    if not preference or chosen == {TRY_NEXT_FLAVOR}:
        return []
    detail = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
    return [invalid("spec.flavorFungibility.preference", preference, detail)]


def _fair_sharing(spec: Object) -> FieldErrors:
    weight = _amount(part(spec, "fairSharing").get("weight"))
    if weight is None:
        return []
    found = _not_negative(weight, "spec.fairSharing")
    if 0 < weight.nano <= _SMALLEST_WEIGHT_NANO:
        found.append(invalid("spec.fairSharing", weight.canonical, "When not 0, weight must be > 10e-9"))
    return found


def _totals(spec: Object) -> FieldErrors:
    groups = list(parts(spec, "resourceGroups", "spec"))
    flavors = sum(len(list(parts(group, "flavors", ""))) for _, group in groups)
    resources = sum(len(listed(group, "coveredResources")) for _, group in groups)
    found: FieldErrors = []
    for count, words in ((flavors, "flavors"), (resources, "covered resources")):
        if count > _MOST:
            detail = f"total number of {words} across all resourceGroups must be ≤ {_MOST}, got {count}"
            found.append(invalid(_GROUPS, count, detail))
    for path, group in groups:
        pairs = sum(len(list(parts(flavor, "resources", ""))) for _, flavor in parts(group, "flavors", ""))
        if pairs > _MOST_PAIRS:
            detail = f"number of flavor-resource combinations in a resourceGroup must be ≤ {_MOST_PAIRS}, got {pairs}"
            found.append(invalid(path, pairs, detail))
    return found


def _check_flavors(spec: Object) -> FieldErrors:
    """Checks that are for some flavors only name flavors of this queue."""
    known = {
        text(flavor, "name")
        for _, group in parts(spec, "resourceGroups", "")
        for _, flavor in parts(group, "flavors", "")
    }
    strategy = part(spec, "admissionChecksStrategy")
    return [
        not_supported(f"{path}.onFlavors[{index}]", flavor, sorted(known))
        for path, check in parts(strategy, "admissionChecks", "spec.admissionChecksStrategy")
        for index, flavor in enumerate(listed(check, "onFlavors"))
        if flavor not in known
    ]


def _amount(value: Any) -> Quantity | None:
    """None where there is none, or none that can be read: the schema says so then."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        return None
    found = quantity.parse(value)
    return found if isinstance(found, Quantity) else None


def _not_negative(amount: Quantity | None, path: str) -> FieldErrors:
    return [invalid(path, amount.canonical, NEGATIVE)] if amount is not None and amount.nano < 0 else []
