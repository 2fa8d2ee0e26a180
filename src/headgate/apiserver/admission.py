"""Admission, called around every write.

``admit_*`` may change the new object before it is prepared and validated; ``validate_*`` only refuses, at the very
end. Both are generators: somebody may have to be asked who is not here, and until the answer comes other writes go on.
Whoever calls them looks at the store again afterwards. The built-in plugins are pure functions in
``apiserver/builtin/``; here they get their view of the cluster.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from headgate.apiserver import records
from headgate.apiserver.builtin.attributes import Attributes, Operation
from headgate.apiserver.builtin.plugins import mutate, validate
from headgate.apiserver.call import Call
from headgate.apiserver.messages import Effect
from headgate.kube import status
from headgate.store import Store

Object = dict[str, Any]
Admitting = Generator[Effect, Any, "Object | status.ApiError"]
Validating = Generator[Effect, Any, "status.ApiError | None"]

_REMEMBERED_OBJECTS: Final = 1024


def admit_create(call: Call, obj: Object) -> Admitting:
    """``obj``, which may be changed, or what it became."""
    return (yield from _admit(call, _attributes(call, "CREATE", obj), obj, None))


def admit_update(call: Call, new: Object, old: Object) -> Admitting:
    return (yield from _admit(call, _attributes(call, "UPDATE", new), new, old))


def validate_create(call: Call, obj: Object) -> Validating:
    return (yield from _validate(call, _attributes(call, "CREATE", obj), obj, None))


def validate_update(call: Call, new: Object, old: Object) -> Validating:
    return (yield from _validate(call, _attributes(call, "UPDATE", new), new, old))


def validate_delete(call: Call, obj: Object) -> Validating:
    """A delete leaves nothing to change, so both tables are asked at once."""
    attributes = _attributes(call, "DELETE", obj)
    admitted = yield from _admit(call, attributes, {}, obj)
    if isinstance(admitted, status.ApiError):
        return admitted
    return (yield from _validate(call, attributes, {}, obj))


def _admit(call: Call, attributes: Attributes, new: Object, old: Object | None) -> Admitting:
    yield from ()
    return mutate(attributes, new, old, _view(call)) or new


def _validate(call: Call, attributes: Attributes, new: Object, old: Object | None) -> Validating:
    yield from ()
    return validate(attributes, new, old, _view(call))


def _attributes(call: Call, operation: Operation, obj: Object) -> Attributes:
    return Attributes(
        operation=operation,
        resource=call.resource,
        kind=call.kind.kind,
        subresource=call.route.subresource,
        namespace=call.namespace,
        name=call.route.name or obj["metadata"].get("name", ""),
        user=call.user.name,
        dry_run="All" in call.query.get("dryRun", ()),
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
    return records.decode(data)
