"""The admission chain, which runs for every write: mutating admission, and later validating admission.

``admit_*`` functions may change the new object before it is prepared and validated; ``validate_*`` functions may only
refuse it, after all other steps. Both are generators: they may call webhooks. Other writes may happen until a webhook
responds, so the caller reads the store again afterwards. The built-in plugins are pure functions in
``apiserver/admission_plugins/``; this module passes them an ``ObjectLister`` to read other objects with. If they read
long objects, they run again in the worker thread. The plugins that the server was started with
(``ServerState.extra_plugins``) run next, then the webhooks (``webhook_dispatch.py``). If a webhook changed the object,
all plugins run once more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import read_entries
from headgate.apiserver.admission import webhook_dispatch
from headgate.apiserver.admission_plugins import service_account
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, ObjectLister, Operation
from headgate.apiserver.registry import definition_status, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import LONG_BYTES, ContinueInThread, Effect, WaitRevision
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.webhooks.configuration import RESOURCES, unsupported
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite
from headgate.store import Item, Revision, Store

Object = dict[str, Any]
AdmitSteps = Generator[Effect, Any, "Object | api_errors.StatusError"]
ValidateSteps = Generator[Effect, Any, "api_errors.StatusError | None"]

_CACHED_OBJECTS: Final = 1024
_RETRY_S: Final = 0.15
_MAX_ATTEMPTS: Final = 9
_MAX_WAKES: Final = 500  # a commit of any other write also ends a wait, so waits are limited, too
_CONFIGURATIONS: Final = frozenset(RESOURCES.values())


def admit_create(call: RequestContext, obj: Object) -> AdmitSteps:
    """Returns ``obj``, perhaps changed, or a new object."""
    refusal = definition_status.refusal(call, obj) if call.kind.is_custom_resource else None
    if refusal is not None:
        return refusal
    return (yield from _admit(call, _attributes(call, "CREATE", obj), obj, None))


def has_webhooks(call: RequestContext, operation: Operation) -> bool:
    """Whether a webhook may match this write. Some objects are built only for webhooks."""
    return any(webhook_dispatch.matching(call, phase, operation) for phase in RESOURCES)


def admit_update(call: RequestContext, new: Object, old: Object) -> AdmitSteps:
    return (yield from _admit(call, _attributes(call, "UPDATE", new), new, old))


def validate_create(call: RequestContext, obj: Object) -> ValidateSteps:
    return (yield from _validate(call, _attributes(call, "CREATE", obj), obj, None))


def validate_update(call: RequestContext, new: Object, old: Object) -> ValidateSteps:
    return (yield from _validate(call, _attributes(call, "UPDATE", new), new, old))


def validate_delete(call: RequestContext, obj: Object, delete_options: options.DeleteOptions) -> ValidateSteps:
    """A delete has no object to change, so both phases run one after the other."""
    attributes = _attributes(call, "DELETE", obj, dry_run=delete_options.dry_run)
    refusal = (yield from _run_mutating_plugins(call, attributes, {}, obj)) or (
        yield from _run_validating_plugins(call, attributes, {}, obj)
    )
    if refusal is not None:
        return refusal
    write = _reviewed_write(call, attributes, options.delete_options_object(delete_options))
    matches = webhook_dispatch.matching(call, "mutating", "DELETE")
    if matches:
        admitted = yield from webhook_dispatch.mutate(
            call, write, matches, None, obj, webhook_dispatch.ReinvocationContext()
        )
        if isinstance(admitted, api_errors.StatusError):
            return admitted
    matches = webhook_dispatch.matching(call, "validating", "DELETE")
    return (yield from webhook_dispatch.validate(call, write, matches, None, obj)) if matches else None


def _admit(call: RequestContext, attributes: AdmissionAttributes, new: Object, old: Object | None) -> AdmitSteps:
    yield from _wait_for_account(call, attributes, new)
    refusal = yield from _run_mutating_plugins(call, attributes, new, old)
    if refusal is not None:
        return refusal
    matches = webhook_dispatch.matching(call, "mutating", attributes.operation)
    if not matches:
        return new
    write, reinvocation = _reviewed_write(call, attributes), webhook_dispatch.ReinvocationContext()
    admitted = yield from webhook_dispatch.mutate(call, write, matches, new, old, reinvocation)
    if reinvocation.changed and isinstance(admitted, dict):
        refusal = yield from _run_mutating_plugins(call, attributes, admitted, old)
        if refusal is not None:
            return refusal
        reinvocation.is_reinvocation = True
        admitted = yield from webhook_dispatch.mutate(call, write, matches, admitted, old, reinvocation)
    if admitted is None or isinstance(admitted, api_errors.StatusError):
        return admitted or new
    return _with_valid_managed_fields(call, admitted, new)


def _wait_for_account(
    call: RequestContext, attributes: AdmissionAttributes, new: Object
) -> Generator[Effect, Any, None]:
    """Waits until the default service account of the namespace exists, if a new pod needs it.

    A controller creates the account of a new namespace, and a pod may be created earlier. kube-apiserver checks every
    0.1 to 0.2 s, ten times in all.
    """
    if service_account.PLUGIN in call.api.disabled_plugins:
        return
    store, attempts = call.api.store, 0
    lister = _StoreLister(store, sys.maxsize)
    for _ in range(_MAX_WAKES):
        if attempts == _MAX_ATTEMPTS or not service_account.needs_default_account(attributes, new, lister):
            return
        committed = yield WaitRevision(Revision(store.committed + 1), _RETRY_S)
        attempts += not committed


def _run_mutating_plugins(
    call: RequestContext, attributes: AdmissionAttributes, new: Object, old: Object | None
) -> ValidateSteps:
    plugins, extra, before = call.api.plugins, call.api.extra_plugins, dict(new)

    def run(lister: ObjectLister) -> api_errors.StatusError | None:
        new.clear()  # undo an earlier run in the event loop; plugins replace top-level fields and do not change values
        new.update(before)
        return plugins.mutate(attributes, new, old, lister) or extra.mutate(attributes, new, old, lister)

    return (yield from _run_plugins(call, run))


def _run_validating_plugins(
    call: RequestContext, attributes: AdmissionAttributes, new: Object, old: Object | None
) -> ValidateSteps:
    plugins, extra = call.api.plugins, call.api.extra_plugins

    def run(lister: ObjectLister) -> api_errors.StatusError | None:
        return plugins.validate(attributes, new, old, lister) or extra.validate(attributes, new, old, lister)

    return (yield from _run_plugins(call, run))


def _run_plugins(call: RequestContext, run: Callable[[ObjectLister], api_errors.StatusError | None]) -> ValidateSteps:
    """Runs plugins in the event loop. If they read too many bytes, runs them again in the worker thread."""
    try:
        return run(_StoreLister(call.api.store, LONG_BYTES))
    except _TooManyBytes:
        yield ContinueInThread()
    return run(_StoreLister(call.api.store, sys.maxsize))


def _with_valid_managed_fields(call: RequestContext, admitted: Object, before: Object) -> Object:
    """The object, with the former ``managedFields`` if a webhook made them invalid."""
    metadata = admitted["metadata"]
    problem = read_entries(metadata.get("managedFields"))
    if not isinstance(problem, str):
        return admitted
    call.warn(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating"
        f" admission controller; please fix your requests: {problem}"
    )
    return {**admitted, "metadata": {**metadata, "managedFields": before["metadata"].get("managedFields") or []}}


def _validate(call: RequestContext, attributes: AdmissionAttributes, new: Object, old: Object | None) -> ValidateSteps:
    refusal = yield from _run_validating_plugins(call, attributes, new, old)
    if refusal is not None:
        return refusal
    if call.kind.resource in _CONFIGURATIONS and (problem := unsupported(new)):
        return attributes.forbidden(new, problem)
    matches = webhook_dispatch.matching(call, "validating", attributes.operation)
    if not matches:
        return None
    return (yield from webhook_dispatch.validate(call, _reviewed_write(call, attributes), matches, new, old))


def _reviewed_write(
    call: RequestContext, attributes: AdmissionAttributes, options_object: Object | None = None
) -> ReviewedWrite:
    """The write as webhooks see it. The namespace of a write of a Namespace is the name of that Namespace."""
    kind = "CreateOptions" if attributes.operation == "CREATE" else "UpdateOptions"
    return ReviewedWrite(
        operation=attributes.operation,
        kind=call.kind,
        subresource=attributes.subresource,
        namespace=attributes.name if call.kind.resource == "namespaces" else attributes.namespace,
        name=attributes.name if call.info.name or attributes.operation != "DELETE" else "",
        options=options_object or options.options_object(kind, call.query),
        dry_run=attributes.dry_run,
        user=call.user,
    )


def _attributes(
    call: RequestContext, operation: Operation, obj: Object, *, dry_run: bool | None = None
) -> AdmissionAttributes:
    return AdmissionAttributes(
        operation=operation,
        resource=call.resource,
        kind=call.kind.kind,
        subresource=call.info.subresource,
        namespace=call.namespace,
        name=call.info.name or obj["metadata"].get("name", ""),
        user=call.user.name,
        dry_run="All" in call.query.get("dryRun", ()) if dry_run is None else dry_run,
        warn=call.warn,
        groups=call.user.groups,
    )


class _TooManyBytes(Exception):
    """The plugins read more than the limit of their lister."""


class _StoreLister:
    """An ``ObjectLister`` that includes staged writes.

    The objects that plugins read may have at most ``max_bytes`` in total, because there may be many: a pod is checked
    against all LimitRanges of its namespace, and gets all tolerations of its RuntimeClass.
    """

    __slots__ = ("_remaining_bytes", "_store")

    def __init__(self, store: Store, max_bytes: int) -> None:
        self._store: Final = store
        self._remaining_bytes = max_bytes

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        item = self._store.read_applied(resource, namespace, name)
        return None if item is None else self._decode(item)

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        item = self._store.read_applied(resource, namespace, name)
        return None if item is None else item.labels

    def list(self, resource: str, namespace: str | None) -> Iterator[Object]:
        for item in self._store.list_applied(resource, namespace):
            yield self._decode(item)

    def _decode(self, item: Item) -> Object:
        self._remaining_bytes -= len(item.data)
        if self._remaining_bytes < 0:
            raise _TooManyBytes
        return _decoded(item.data)


@lru_cache(_CACHED_OBJECTS)
def _decoded(data: bytes) -> Object:
    """The same namespace and classes are read for every new pod, so they are decoded once per change."""
    return stored_objects.decode(data)
