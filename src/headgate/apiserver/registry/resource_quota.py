"""Whether the ResourceQuotas of a namespace allow a write, and the usage of each of them after the write.

The check is the last step that can refuse the write. No other request runs between the check and the staging of the
write, because the generator does not yield there. So the usage of a write is recorded before the next write is checked.
``resource_quota_usage.py`` records the usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.resource_quota import Evaluator, evaluator_of, requirements
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.state import ServerState
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts

Object = dict[str, Any]

QUOTAS: Final = "resourcequotas"
_CACHED_QUOTAS: Final = 1024


class QuotaUsageUpdate(msgspec.Struct, frozen=True):
    """``used``: the total usage of the ResourceQuota ``quota`` after the write."""

    quota: Object
    used: Amounts

    @property
    def adds_usage(self) -> bool:
        before = amounts((self.quota.get("status") or {}).get("used"))
        return any(value > before[name] for name, value in self.used.items() if name in before)


def quotas_of(api: ServerState, namespace: str) -> Iterator[Object]:
    """The ResourceQuotas of a namespace, with staged writes. They are cached and must not be changed."""
    for item in api.store.list_applied(QUOTAS, namespace):
        yield _decoded(item.data)


@lru_cache(_CACHED_QUOTAS)
def _decoded(data: bytes) -> Object:
    return stored_objects.decode(data)


def refusal(call: RequestContext, new: Object, old: Object | None) -> api_errors.StatusError | None:
    """The error if the write exceeds a quota of the namespace."""
    resource = call.kind.resource
    found = usage_updates(call.api, resource, call.namespace, call.info.subresource, new, old)
    if not isinstance(found, str):
        return None
    metadata = new["metadata"]
    name = call.info.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    return api_errors.forbidden(call.resource, name, found)


def usage_updates(
    api: ServerState, resource: str, namespace: str, subresource: str, new: Object, old: Object | None
) -> list[QuotaUsageUpdate] | str:
    """The new usage of each quota whose usage the write increases. A ``str`` says why the write is refused."""
    evaluator = evaluator_of(resource) if namespace else None
    if evaluator is None or not is_checked_by_quota(evaluator, subresource, new, old):
        return []
    requests: list[_QuotaRequest] = []
    for quota in quotas_of(api, namespace):
        request = _quota_request(evaluator, quota, new, old)
        if isinstance(request, str):
            return request
        if request is not None:
            requests.append(request)
    for request in requests:
        if subresource != "status" and (problem := request.exceeded()):
            return problem
    return [QuotaUsageUpdate(request.quota, {**request.used, **request.after}) for request in requests if request.added]


def is_checked_by_quota(evaluator: Evaluator, subresource: str, new: Object, old: Object | None) -> bool:
    """Whether quota admission checks this write: a create, or an update that may add usage."""
    return not subresource if old is None else evaluator.may_add_usage(subresource, new, old)


class _QuotaRequest(msgspec.Struct, frozen=True):
    """The usage that a write adds to one quota. ``hard`` and ``used`` are those of the quota's status."""

    quota: Object
    hard: Amounts
    used: Amounts
    added: Amounts

    @property
    def after(self) -> Amounts:
        return {name: self.used.get(name, quantity.ZERO) + value for name, value in self.added.items()}

    def exceeded(self) -> str:
        """The text of the refusal if the quota is exceeded; empty if it is not."""
        names = sorted(name for name, value in self.after.items() if value > self.hard[name])
        if not names:
            return ""
        parts = (("requested", self.added), ("used", self.used), ("limited", self.hard))
        shown = ", ".join(f"{word}: {_amounts_text(values, names)}" for word, values in parts)
        return f"exceeded quota: {self.quota['metadata']['name']}, {shown}"


def _quota_request(evaluator: Evaluator, quota: Object, new: Object, old: Object | None) -> _QuotaRequest | str | None:
    """``None`` if the quota does not apply to the object; a ``str`` is the reason why the write is refused."""
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    hard, used = amounts(status.get("hard")), amounts(status.get("used"))
    tracked, scopes = evaluator.tracked(hard), requirements(quota)
    usage = evaluator.usage_in_scopes(scopes, new) if tracked else {}
    if not usage:
        return None
    problem = evaluator.missing(tracked, new)
    if problem:
        return f"failed quota: {name}: {problem}"
    if any(each not in used for each in tracked):
        return f"status unknown for quota: {name}, resources: {','.join(sorted(tracked))}"
    negative = sorted(each for each, value in usage.items() if value < quantity.ZERO)
    if negative:
        return f"quota usage is negative for resource(s): {','.join(negative)}"
    before = evaluator.usage_in_scopes(scopes, old)
    added = {each: value - before.get(each, quantity.ZERO) for each, value in usage.items() if each in hard}
    return _QuotaRequest(quota, hard, used, {each: value for each, value in added.items() if value > quantity.ZERO})


def _amounts_text(values: Mapping[str, quantity.Quantity], names: list[str]) -> str:
    return ",".join(f"{name}={values[name].canonical}" for name in names if name in values)


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    return {name: quantity.amount(value) for name, value in (listed or {}).items()}
