"""Updates ``status.used`` of ResourceQuotas after every staged write, in the same transaction.

By default the API server only adds the usage of admitted writes, as kube-apiserver does; a kube-controller-manager
subtracts and recalculates usage. With ``ServerState.tracks_quota_usage`` the API server does all of this: it also
subtracts the usage of deleted objects, and calculates the usage of a ResourceQuota from the objects of its namespace if
it is new or its limits change.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply import track_update
from headgate.apimachinery.resource_quota import Evaluator, evaluator_of, requirements
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.registry.resource_quota import (
    QUOTAS,
    QuotaUsageUpdate,
    amounts,
    is_checked_by_quota,
    quotas_of,
    usage_updates,
)
from headgate.apiserver.state import ServerState
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts
from headgate.store import StoreChange

Object = dict[str, Any]

# The field managers that ``managedFields`` record for ``status``. In a real cluster, kube-apiserver adds usage when it
# admits a write, and the quota controller of kube-controller-manager subtracts and recalculates usage.
_ADMISSION_MANAGER: Final = "kube-apiserver"
_RECALCULATION_MANAGER: Final = "kube-controller-manager"
# As in the quota controller: only resources with these verbs have usage.
_REQUIRED_VERBS: Final = frozenset({"create", "delete", "list", "watch"})
_SPEC: Final = (("spec",),)


def update_usage(api: ServerState, change: StoreChange, subresource: str, now: str) -> None:
    """Stages the new usage of the ResourceQuotas of the namespace. ``change`` is staged already.

    ``subresource``: the subresource of the request that made the change.
    """
    item = change.item
    evaluator = evaluator_of(item.resource) if item.namespace else None
    if evaluator is None:
        return
    quotas = [each for each in quotas_of(api, item.namespace) if not _is_same_quota(each, change)]
    if quotas:
        new = None if change.deleted else stored_objects.decode(item.data)
        old = None if change.previous is None else stored_objects.decode(change.previous.data)
        if api.tracks_quota_usage:
            is_quota_checked = new is not None and is_checked_by_quota(evaluator, subresource, new, old)
            for update in _usage_updates(evaluator, quotas, new, old):
                _write(
                    api,
                    update.quota,
                    update.used,
                    _ADMISSION_MANAGER if is_quota_checked and update.adds_usage else _RECALCULATION_MANAGER,
                    now,
                )
        elif new is not None:
            found = usage_updates(api, item.resource, item.namespace, subresource, new, old)
            # A str says that a quota does not allow the write. The write is staged nevertheless if it was not checked
            # (a change that the server itself makes, such as a deletion timestamp). Its usage is not added.
            for update in found if not isinstance(found, str) else ():
                _write(api, update.quota, update.used, _ADMISSION_MANAGER, now)
    if item.resource == QUOTAS and api.tracks_quota_usage and not change.deleted:
        _recalculate_if_stale(api, stored_objects.decode(item.data), now)


def _is_same_quota(quota: Object, change: StoreChange) -> bool:
    return change.item.resource == QUOTAS and quota["metadata"]["name"] == change.item.name


def _usage_updates(
    evaluator: Evaluator, quotas: list[Object], new: Object | None, old: Object | None
) -> list[QuotaUsageUpdate]:
    """The usage of those quotas whose usage changes when the object changes from ``old`` to ``new``."""
    found: list[QuotaUsageUpdate] = []
    for quota in quotas:
        used = amounts((quota.get("status") or {}).get("used"))
        if not evaluator.tracked(used):
            continue
        scopes = requirements(quota)
        usage, before = evaluator.usage_in_scopes(scopes, new), evaluator.usage_in_scopes(scopes, old)
        after = dict(used)
        for name in usage.keys() | before.keys():
            if name in used and usage.get(name) != before.get(name):
                value = used[name] + usage.get(name, quantity.ZERO) - before.get(name, quantity.ZERO)
                after[name] = max(value, quantity.ZERO)
        if after != used:
            found.append(QuotaUsageUpdate(quota, after))
    return found


def _recalculate_if_stale(api: ServerState, quota: Object, now: str) -> None:
    """Calculates the usage of a quota that has no usage yet, or whose ``spec.hard`` differs from ``status.hard``."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    hard = spec.get("hard") or {}
    if amounts(hard) == amounts(status.get("hard")) and status.get("used") is not None:
        return
    _write(api, quota, calculate_usage(api, quota), _RECALCULATION_MANAGER, now, hard=hard)


def recalculate_all(api: ServerState, now: str) -> None:
    """Recalculates the usage of every quota and stages the status of those that differ. Runs when the server starts."""
    for item in list(api.store.list_applied(QUOTAS, None)):
        quota = stored_objects.decode(item.data)
        hard, used = (quota.get("spec") or {}).get("hard") or {}, calculate_usage(api, quota)
        status = quota.get("status") or {}
        if amounts(status.get("hard")) != amounts(hard) or amounts(status.get("used")) != used:
            _write(api, quota, used, _RECALCULATION_MANAGER, now, hard=hard)


def calculate_usage(api: ServerState, quota: Object) -> Amounts:
    """The usage of a quota by the objects that are in its namespace now."""
    namespace, hard = quota["metadata"]["namespace"], (quota.get("spec") or {}).get("hard") or {}
    scopes, total = requirements(quota), dict[str, quantity.Quantity]()
    for resource in _resources_with_usage(api):
        evaluator = evaluator_of(resource)
        tracked = evaluator.tracked(hard) if evaluator is not None else []
        if evaluator is None or not tracked:
            continue
        for name in tracked:
            total.setdefault(name, quantity.ZERO)
        for item in api.store.list_applied(resource, namespace):
            for name, value in evaluator.usage_in_scopes(scopes, stored_objects.decode(item.data)).items():
                if name in total:
                    total[name] = total[name] + value
    return total


def _resources_with_usage(api: ServerState) -> list[str]:
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
        stored_objects.wire_form(api, kind, new),
        manager=manager,
        api_version=kind.api_version,
        subresource="status",
        now=now,
        reset=_SPEC,
    )
    item = stored_objects.make_item(api, kind, stored_objects.wire_form(api, kind, new), api.store.next_revision())
    api.store.stage(item)


def _kind(api: ServerState) -> ServedKind:
    kind = api.kinds.by_resource("", "v1", QUOTAS)
    if kind is None:
        raise LookupError("this server does not serve ResourceQuotas")
    return kind
