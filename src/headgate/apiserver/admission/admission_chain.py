"""Admission, called around every write.

``admit_*`` functions may change the new object before it is prepared and validated; ``validate_*`` functions only
refuse, after everything else. Both are generators: a webhook may have to be called, and other writes go on until it
responds, so the caller reads the store again afterwards. The built-in plugins are pure functions in
``apiserver/admission_plugins/``; this module gives them an ``ObjectLister``. After them run the plugins that the server
was started with (``ServerState.extra_plugins``), then webhooks (``webhook_dispatch.py``). If a webhook changed the
object, all plugins run once more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import read_entries
from headgate.apiserver.admission import webhook_dispatch
from headgate.apiserver.admission_plugins import service_account
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, ObjectLister, Operation
from headgate.apiserver.call import Call
from headgate.apiserver.registry import definition_status, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, WaitRevision
from headgate.apiserver.webhooks.configuration import RESOURCES, unsupported
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite
from headgate.store import Revision, Store

Object = dict[str, Any]
AdmitSteps = Generator[Effect, Any, "Object | api_errors.StatusError"]
ValidateSteps = Generator[Effect, Any, "api_errors.StatusError | None"]

_CACHED_OBJECTS: Final = 1024
_RETRY_S: Final = 0.15
_MAX_ATTEMPTS: Final = 9
_MAX_WAKES: Final = 500  # each commit of another write is one
_CONFIGURATIONS: Final = frozenset(RESOURCES.values())


def admit_create(call: Call, obj: Object) -> AdmitSteps:
    """Returns ``obj``, perhaps changed, or a new object."""
    refusal = definition_status.refusal(call, obj) if call.kind.scheme is not None else None
    if refusal is not None:
        return refusal
    return (yield from _admit(call, _attributes(call, "CREATE", obj), obj, None))


def has_webhooks(call: Call, operation: Operation) -> bool:
    """Whether a webhook may match this write. Some objects are built only for webhooks."""
    return any(webhook_dispatch.matching(call, phase, operation) for phase in RESOURCES)


def admit_update(call: Call, new: Object, old: Object) -> AdmitSteps:
    return (yield from _admit(call, _attributes(call, "UPDATE", new), new, old))


def validate_create(call: Call, obj: Object) -> ValidateSteps:
    return (yield from _validate(call, _attributes(call, "CREATE", obj), obj, None))


def validate_update(call: Call, new: Object, old: Object) -> ValidateSteps:
    return (yield from _validate(call, _attributes(call, "UPDATE", new), new, old))


def validate_delete(call: Call, obj: Object, delete_options: options.DeleteOptions) -> ValidateSteps:
    """A delete has no object to change, so both phases run one after the other."""
    attributes, lister = _attributes(call, "DELETE", obj, dry_run=delete_options.dry_run), _lister(call)
    refusal = _run_mutating_plugins(call, attributes, {}, obj, lister) or _run_validating_plugins(
        call, attributes, {}, obj, lister
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


def _admit(call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None) -> AdmitSteps:
    lister = _lister(call)
    yield from _wait_for_account(call, attributes, new, lister)
    refusal = _run_mutating_plugins(call, attributes, new, old, lister)
    if refusal is not None:
        return refusal
    matches = webhook_dispatch.matching(call, "mutating", attributes.operation)
    if not matches:
        return new
    write, reinvocation = _reviewed_write(call, attributes), webhook_dispatch.ReinvocationContext()
    admitted = yield from webhook_dispatch.mutate(call, write, matches, new, old, reinvocation)
    if reinvocation.changed and isinstance(admitted, dict):
        refusal = _run_mutating_plugins(call, attributes, admitted, old, lister)
        if refusal is not None:
            return refusal
        reinvocation.is_reinvocation = True
        admitted = yield from webhook_dispatch.mutate(call, write, matches, admitted, old, reinvocation)
    if admitted is None or isinstance(admitted, api_errors.StatusError):
        return admitted or new
    return _with_valid_managed_fields(call, admitted, new)


def _wait_for_account(
    call: Call, attributes: AdmissionAttributes, new: Object, lister: ObjectLister
) -> Generator[Effect, Any, None]:
    """A controller creates the account of a new namespace. A pod that is created earlier waits for it, as on
    kube-apiserver, which checks every 0.1 to 0.2 s, ten times in all."""
    if service_account.PLUGIN in call.api.disabled_plugins:
        return
    store, attempts = call.api.store, 0
    for _ in range(_MAX_WAKES):
        if attempts == _MAX_ATTEMPTS or not service_account.needs_default_account(attributes, new, lister):
            return
        committed = yield WaitRevision(Revision(store.committed + 1), _RETRY_S)
        attempts += not committed


def _run_mutating_plugins(
    call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    return call.api.plugins.mutate(attributes, new, old, lister) or call.api.extra_plugins.mutate(
        attributes, new, old, lister
    )


def _run_validating_plugins(
    call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    return call.api.plugins.validate(attributes, new, old, lister) or call.api.extra_plugins.validate(
        attributes, new, old, lister
    )


def _with_valid_managed_fields(call: Call, admitted: Object, before: Object) -> Object:
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


def _validate(call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None) -> ValidateSteps:
    refusal = _run_validating_plugins(call, attributes, new, old, _lister(call))
    if refusal is not None:
        return refusal
    if call.kind.resource in _CONFIGURATIONS and (problem := unsupported(new)):
        return attributes.forbidden(new, problem)
    matches = webhook_dispatch.matching(call, "validating", attributes.operation)
    if not matches:
        return None
    return (yield from webhook_dispatch.validate(call, _reviewed_write(call, attributes), matches, new, old))


def _reviewed_write(call: Call, attributes: AdmissionAttributes, options_object: Object | None = None) -> ReviewedWrite:
    """The write as webhooks see it: the namespace of a Namespace is its own name."""
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


def _attributes(call: Call, operation: Operation, obj: Object, *, dry_run: bool | None = None) -> AdmissionAttributes:
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
    )


def _lister(call: Call) -> _StoreLister:
    return _StoreLister(call.api.store)


class _StoreLister:
    """The applied head, which includes staged writes."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        item = self._store.peek(resource, namespace, name)
        return None if item is None else _decoded(item.data)

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        item = self._store.peek(resource, namespace, name)
        return None if item is None else item.labels

    def list(self, resource: str, namespace: str | None) -> Iterator[Object]:
        for item in self._store.peek_all(resource, namespace):
            yield _decoded(item.data)


@lru_cache(_CACHED_OBJECTS)
def _decoded(data: bytes) -> Object:
    """The same namespace and classes are read for every new pod, so they are decoded once per change."""
    return stored_objects.decode(data)
