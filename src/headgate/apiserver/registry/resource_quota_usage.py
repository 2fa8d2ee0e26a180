"""Usage of ResourceQuotas: updates ``status.used`` for every staged write, in the same transaction.

By default only the usage that a write was admitted with is charged; a kube-controller-manager beside the server
releases and recalculates. With ``ServerState.tracks_quota_usage`` every change counts, up and down, and a quota that is
new or whose limits changed is calculated once from the objects of its namespace.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply import track_update
from headgate.apimachinery.resource_quota import Evaluator, evaluator_of, requirements
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.registry.resource_quota import QUOTAS, QuotaCharge, amounts, charges, is_charged, quotas_of
from headgate.apiserver.state import ServerState
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts
from headgate.store import StoreChange

Object = dict[str, Any]

_CHARGING_MANAGER: Final = "kube-apiserver"
_COUNTING_MANAGER: Final = "kube-controller-manager"
_REQUIRED_VERBS: Final = frozenset({"create", "delete", "list", "watch"})
_SPEC: Final = (("spec",),)


def update_usage(api: ServerState, change: StoreChange, subresource: str, now: str) -> None:
    """``change`` was just staged through ``subresource``; stages the new usage of the quotas of its namespace."""
    item = change.item
    evaluator = evaluator_of(item.resource) if item.namespace else None
    if evaluator is None:
        return
    quotas = [each for each in quotas_of(api, item.namespace) if not _is_same_quota(each, change)]
    if quotas:
        new = None if change.deleted else stored_objects.decode(item.data)
        old = None if change.previous is None else stored_objects.decode(change.previous.data)
        if api.tracks_quota_usage:
            admitted = new is not None and is_charged(evaluator, subresource, new, old)
            for charge in _changed_charges(evaluator, quotas, new, old):
                _write(
                    api,
                    charge.quota,
                    charge.used,
                    _CHARGING_MANAGER if admitted and charge.grows else _COUNTING_MANAGER,
                    now,
                )
        elif new is not None:
            found = charges(api, item.resource, item.namespace, subresource, new, old)
            for charge in found if not isinstance(found, str) else ():
                _write(api, charge.quota, charge.used, _CHARGING_MANAGER, now)
    if item.resource == QUOTAS and api.tracks_quota_usage and not change.deleted:
        _count_if_stale(api, stored_objects.decode(item.data), now)


def _is_same_quota(quota: Object, change: StoreChange) -> bool:
    return change.item.resource == QUOTAS and quota["metadata"]["name"] == change.item.name


def _changed_charges(
    evaluator: Evaluator, quotas: list[Object], new: Object | None, old: Object | None
) -> list[QuotaCharge]:
    """The quotas whose usage changes with the object."""
    found: list[QuotaCharge] = []
    for quota in quotas:
        used = amounts((quota.get("status") or {}).get("used"))
        if not evaluator.tracked(used):
            continue
        scopes = requirements(quota)
        cost, before = evaluator.cost(scopes, new), evaluator.cost(scopes, old)
        after = dict(used)
        for name in cost.keys() | before.keys():
            if name in used and cost.get(name) != before.get(name):
                value = used[name] + cost.get(name, quantity.ZERO) - before.get(name, quantity.ZERO)
                after[name] = max(value, quantity.ZERO)
        if after != used:
            found.append(QuotaCharge(quota, after))
    return found


def _count_if_stale(api: ServerState, quota: Object, now: str) -> None:
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    hard = spec.get("hard") or {}
    if amounts(hard) == amounts(status.get("hard")) and status.get("used") is not None:
        return
    _write(api, quota, count(api, quota), _COUNTING_MANAGER, now, hard=hard)


def recount(api: ServerState, now: str) -> None:
    """Recalculates every quota and stages those whose status differs, at the start of the server."""
    for item in list(api.store.peek_all(QUOTAS, None)):
        quota = stored_objects.decode(item.data)
        hard, used = (quota.get("spec") or {}).get("hard") or {}, count(api, quota)
        status = quota.get("status") or {}
        if amounts(status.get("hard")) != amounts(hard) or amounts(status.get("used")) != used:
            _write(api, quota, used, _COUNTING_MANAGER, now, hard=hard)


def count(api: ServerState, quota: Object) -> Amounts:
    """The usage of a quota by the objects that are in its namespace now."""
    namespace, hard = quota["metadata"]["namespace"], (quota.get("spec") or {}).get("hard") or {}
    scopes, total = requirements(quota), dict[str, quantity.Quantity]()
    for resource in _countable_resources(api):
        evaluator = evaluator_of(resource)
        tracked = evaluator.tracked(hard) if evaluator is not None else []
        if evaluator is None or not tracked:
            continue
        for name in tracked:
            total.setdefault(name, quantity.ZERO)
        for item in api.store.peek_all(resource, namespace):
            for name, value in evaluator.cost(scopes, stored_objects.decode(item.data)).items():
                if name in total:
                    total[name] = total[name] + value
    return total


def _countable_resources(api: ServerState) -> list[str]:
    kinds = (
        kind for kind in api.kinds.kinds() if kind.namespaced and kind.is_stored and set(kind.verbs) >= _REQUIRED_VERBS
    )
    return list(dict.fromkeys(kind.resource for kind in kinds))


def _write(
    api: ServerState, quota: Object, used: Amounts, manager: str, now: str, *, hard: Object | None = None
) -> None:
    kind = _kind(api)
    limits = hard if hard is not None else (quota.get("status") or {}).get("hard") or {}
    used_texts = {name: used[name].canonical for name in sorted(used) if name in limits}
    new = {**quota, "metadata": dict(quota["metadata"]), "status": {"hard": limits, "used": used_texts}}
    new = track_update(
        api.scheme_of(kind).typed,
        quota,
        stored_objects.canonical(api, kind, new),
        manager=manager,
        api_version=kind.api_version,
        subresource="status",
        now=now,
        reset=_SPEC,
    )
    item = stored_objects.make_item(api, kind, stored_objects.canonical(api, kind, new), api.store.next_revision())
    api.store.stage(item)


def _kind(api: ServerState) -> ServedKind:
    kind = api.kinds.by_resource("", "v1", QUOTAS)
    if kind is None:
        raise LookupError("a server without quotas has none to write")
    return kind
