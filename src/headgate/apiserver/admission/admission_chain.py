"""Admission, called around every write.

``admit_*`` functions may change the new object before it is prepared and validated; ``validate_*`` functions only
refuse, after everything else. Both are generators: a webhook may have to be called, and other writes go on until it
responds, so the caller reads the store again afterwards. The built-in plugins are pure functions in
``apiserver/admission_plugins/``; this module gives them their view of the cluster. After them come the steps that the
server was started with (``ServerState.guests``), then webhooks (``webhook_dispatch.py``). If a webhook changed the
object, plugins and those steps run once more.
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
Admitting = Generator[Effect, Any, "Object | api_errors.StatusError"]
Validating = Generator[Effect, Any, "api_errors.StatusError | None"]

_REMEMBERED_OBJECTS: Final = 1024
_LOOK_AGAIN_S: Final = 0.15
_LOOKS: Final = 9
_MAX_WAKES: Final = 500  # by writes of others
_CONFIGURATIONS: Final = frozenset(RESOURCES.values())


def admit_create(call: Call, obj: Object) -> Admitting:
    """``obj``, which may be changed, or what it became."""
    ending = definition_status.refusal(call, obj) if call.kind.scheme is not None else None
    if ending is not None:
        return ending
    return (yield from _admit(call, _attributes(call, "CREATE", obj), obj, None))


def is_asked(call: Call, operation: Operation) -> bool:
    """Whether a webhook may look at this write. What only a webhook can see need not be made if none does."""
    return any(webhook_dispatch.matching(call, phase, operation) for phase in RESOURCES)


def admit_update(call: Call, new: Object, old: Object) -> Admitting:
    return (yield from _admit(call, _attributes(call, "UPDATE", new), new, old))


def validate_create(call: Call, obj: Object) -> Validating:
    return (yield from _validate(call, _attributes(call, "CREATE", obj), obj, None))


def validate_update(call: Call, new: Object, old: Object) -> Validating:
    return (yield from _validate(call, _attributes(call, "UPDATE", new), new, old))


def validate_delete(call: Call, obj: Object, wanted: options.DeleteOptions) -> Validating:
    """A delete leaves nothing to change, so both phases follow at once."""
    attributes, view = _attributes(call, "DELETE", obj, dry_run=wanted.dry_run), _view(call)
    refusal = _mutate(call, attributes, {}, obj, view) or _refuse(call, attributes, {}, obj, view)
    if refusal is not None:
        return refusal
    write = _write(call, attributes, options.delete_options_object(wanted))
    matches = webhook_dispatch.matching(call, "mutating", "DELETE")
    if matches:
        admitted = yield from webhook_dispatch.mutate(
            call, write, matches, None, obj, webhook_dispatch.ReinvocationContext()
        )
        if isinstance(admitted, api_errors.StatusError):
            return admitted
    matches = webhook_dispatch.matching(call, "validating", "DELETE")
    return (yield from webhook_dispatch.validate(call, write, matches, None, obj)) if matches else None


def _admit(call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None) -> Admitting:
    view = _view(call)
    yield from _wait_for_account(call, attributes, new, view)
    refusal = _mutate(call, attributes, new, old, view)
    if refusal is not None:
        return refusal
    matches = webhook_dispatch.matching(call, "mutating", attributes.operation)
    if not matches:
        return new
    write, rounds = _write(call, attributes), webhook_dispatch.ReinvocationContext()
    made = yield from webhook_dispatch.mutate(call, write, matches, new, old, rounds)
    if rounds.changed and isinstance(made, dict):
        refusal = _mutate(call, attributes, made, old, view)
        if refusal is not None:
            return refusal
        rounds.second = True
        made = yield from webhook_dispatch.mutate(call, write, matches, made, old, rounds)
    if made is None or isinstance(made, api_errors.StatusError):
        return made or new
    return _with_readable_owners(call, made, new)


def _wait_for_account(
    call: Call, attributes: AdmissionAttributes, new: Object, view: ObjectLister
) -> Generator[Effect, Any, None]:
    """A controller makes the account of a new namespace: a pod that comes first is given that moment, as it is by the
    real server, which looks again every 0.1 to 0.2 s, ten times in all."""
    if service_account.PLUGIN in call.api.disabled_plugins:
        return
    store, looked = call.api.store, 0
    for _ in range(_MAX_WAKES):
        if looked == _LOOKS or not service_account.awaited_account(attributes, new, view):
            return
        committed = yield WaitRevision(Revision(store.committed + 1), _LOOK_AGAIN_S)
        looked += not committed


def _mutate(
    call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    return call.api.plugins.mutate(attributes, new, old, view) or call.api.extra_plugins.mutate(
        attributes, new, old, view
    )


def _refuse(
    call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
) -> api_errors.StatusError | None:
    return call.api.plugins.validate(attributes, new, old, view) or call.api.extra_plugins.validate(
        attributes, new, old, view
    )


def _with_readable_owners(call: Call, made: Object, before: Object) -> Object:
    """What a webhook left of ``managedFields``, if it still makes sense."""
    metadata = made["metadata"]
    problem = read_entries(metadata.get("managedFields"))
    if not isinstance(problem, str):
        return made
    call.warn(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating"
        f" admission controller; please fix your requests: {problem}"
    )
    return {**made, "metadata": {**metadata, "managedFields": before["metadata"].get("managedFields") or []}}


def _validate(call: Call, attributes: AdmissionAttributes, new: Object, old: Object | None) -> Validating:
    refusal = _refuse(call, attributes, new, old, _view(call))
    if refusal is not None:
        return refusal
    if call.kind.resource in _CONFIGURATIONS and (problem := unsupported(new)):
        return attributes.forbidden(new, problem)
    matches = webhook_dispatch.matching(call, "validating", attributes.operation)
    if not matches:
        return None
    return (yield from webhook_dispatch.validate(call, _write(call, attributes), matches, new, old))


def _write(call: Call, attributes: AdmissionAttributes, options_object: Object | None = None) -> ReviewedWrite:
    """The same for webhooks: to them a Namespace lies in itself."""
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


def _view(call: Call) -> _StoreView:
    return _StoreView(call.api.store)


class _StoreView:
    """What writers see, which is what is applied: a write under way counts already."""

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


@lru_cache(_REMEMBERED_OBJECTS)
def _decoded(data: bytes) -> Object:
    """Every pod that is created asks for the same namespace and the same classes: they are decoded once per change."""
    return stored_objects.decode(data)
