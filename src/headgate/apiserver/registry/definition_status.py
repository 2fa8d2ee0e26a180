"""The status that the server writes after a definition was written: accepted names, conditions, and finalization.

In Kubernetes, controllers inside the API server do this later; here it is staged together with the write, so that a
definition serves its kinds as soon as its creation is answered, and its objects are deleted with it. The writes are the
same, one by one, and watches see each.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import track_update
from headgate.apimachinery.strategy.prepare import SPEC_AND_METADATA
from headgate.apiserver.call import Call
from headgate.apiserver.custom import definition_names
from headgate.apiserver.custom.definition import is_true
from headgate.apiserver.custom.name_index import DefinitionNamesEntry
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import stored_objects
from headgate.kube.conditions import find, with_condition
from headgate.kube.schema import GroupVersionKind
from headgate.store import Item

Object = dict[str, Any]

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
PENDING: Final = "InstanceDeletionPending"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_MANAGER: Final = "kube-apiserver"
_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def update_after_write(call: Call, kind: ServedKind, item: Item) -> None:
    """``item`` was just staged: a definition, or the deletion of a custom object."""
    if kind.resource == DEFINITIONS:
        _update_definition(call, kind, item.name)
        return
    definition = call.api.store.peek(DEFINITIONS, "", item.resource)
    row = call.api.kinds.by_gvk(_DEFINITION)
    if definition is not None and row is not None:
        obj = stored_objects.decode(definition.data)
        if _is_terminating(obj) and _terminating_reason(obj) != PENDING:
            _remove_if_empty(call, row, obj)


def refusal(call: Call, obj: Object) -> api_errors.StatusError | None:
    """The error for a new object of a custom kind whose definition is terminating or already deleted."""
    item = call.api.store.peek(DEFINITIONS, "", call.kind.resource)
    if item is None:
        return api_errors.unknown_path()
    if not call.kind.terminating and item.revision <= call.api.store.committed:
        return None
    if not is_true(stored_objects.decode(item.data), "Terminating"):
        return None
    text = "create not allowed while custom resource definition is terminating"
    return api_errors.forbidden(call.resource, call.info.name or obj["metadata"].get("name", ""), text)


def _update_definition(call: Call, kind: ServedKind, name: str) -> None:
    """Updates the status of one definition; if its names changed, also of the others in its group."""
    item = call.api.store.peek(DEFINITIONS, "", name)
    if item is None or _update_status(call, kind, stored_objects.decode(item.data)):
        for other in _group_entries(call, name.partition(".")[2]):
            if other.waiting and other.item.name != name:
                _update_status(call, kind, stored_objects.decode(other.item.data))


def _update_status(call: Call, kind: ServedKind, definition: Object) -> bool:
    """Writes the next states of one definition. Returns whether its names changed."""
    if _is_terminating(definition):
        if _terminating_reason(definition) == PENDING:
            _delete_instances(call, kind, definition)
        return False
    approved = definition_names.approve(definition, call.now)
    if approved is not None:
        definition = _write_status(call, kind, definition, approved)
    changed = definition_names.accept(definition, _taken_names(call, definition), call.now)
    if changed is not None:
        definition = _write_status(call, kind, definition, changed)
    established = definition_names.establish(definition, call.now)
    if established is not None:
        _write_status(call, kind, definition, established)
    return changed is not None


def _group_entries(call: Call, group: str) -> list[DefinitionNamesEntry]:
    return call.api.definition_names.group(call.api.store.peek_all(DEFINITIONS, None), group)


def _terminating_reason(definition: Object) -> str:
    """The reason of the condition Terminating."""
    found = find(definition["status"].get("conditions"), "Terminating")
    return "" if found is None else str(found.get("reason"))


def _taken_names(call: Call, definition: Object) -> definition_names.TakenNames:
    """The accepted names of the definitions of a group."""
    taken = definition_names.TakenNames(set(), set())
    if not definition_names.all_names_accepted(definition):
        for entry in _group_entries(call, definition["spec"]["group"]):
            taken.add(entry.names)
    return taken


def _write_status(call: Call, kind: ServedKind, old: Object, new_status: Object) -> Object:
    """Writes ``old`` with another status. The other fields are not printed again, because they may be large."""
    printed = stored_objects.canonical(call.api, kind, {"metadata": {}, "spec": {}, "status": new_status})
    tracked = track_update(
        call.api.scheme_of(kind).typed,
        old,
        {**old, "status": printed["status"]},
        manager=_MANAGER,
        api_version=kind.api_version,
        subresource="status",
        now=call.now,
        reset=SPEC_AND_METADATA,
    )
    return _stage(call, kind, tracked)


def _stage(call: Call, kind: ServedKind, obj: Object, *, delete: bool = False) -> Object:
    store = call.api.store
    item = stored_objects.make_item(call.api, kind, obj, store.next_revision())
    store.stage(item, delete=delete)
    if item.resource == DEFINITIONS and not delete:
        call.api.prepare_definition(item)
    return stored_objects.with_revision(obj, item.revision)


def mark_terminating(definition: Object, now: str) -> Object:
    """The definition with a deletion timestamp, the cleanup finalizer and the condition Terminating."""
    metadata = {**definition["metadata"], "deletionTimestamp": now}
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if CLEANUP in finalizers else [*finalizers, CLEANUP]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    marked = _with_condition(definition["status"], _terminating("True", PENDING, message), now)
    return {**definition, "metadata": metadata, "status": marked}


def _is_terminating(definition: Object) -> bool:
    metadata = definition["metadata"]
    return "deletionTimestamp" in metadata and CLEANUP in (metadata.get("finalizers") or ())


def _delete_instances(call: Call, kind: ServedKind, definition: Object) -> None:
    """Deletes all objects of a terminating definition, and the definition once none is left."""
    progress = _terminating("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    definition = _write_status(call, kind, definition, _with_condition(definition["status"], progress, call.now))
    if not is_true(definition, "Established"):
        reason = _terminating("False", "NeverEstablished", "resource was never established")
        _remove(call, kind, definition, reason)
        return
    resource = definition["metadata"]["name"]
    kinds = call.api.kinds.by_storage(resource)
    if kinds:
        for item in list(call.api.store.peek_all(resource, None)):
            _delete_instance(call, kinds[0], item)
    _remove_if_empty(call, kind, definition)


def _delete_instance(call: Call, kind: ServedKind, item: Item) -> None:
    obj = stored_objects.load(call.api, kind, item)
    metadata = dict(obj["metadata"])
    if not metadata.get("finalizers"):
        _stage(call, kind, obj, delete=True)
    elif "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = call.now, 0
        metadata["generation"] = metadata.get("generation", 0) + 1
        _stage(call, kind, stored_objects.canonical(call.api, kind, {**obj, "metadata": metadata}))


def _remove_if_empty(call: Call, kind: ServedKind, definition: Object) -> None:
    resource = definition["metadata"]["name"]
    if any(True for _ in call.api.store.peek_all(resource, None)):
        return  # some wait for finalizers; the deletion of the last one calls this function again
    _remove(call, kind, definition, _terminating("False", "InstanceDeletionCompleted", "removed all instances"))


def _remove(call: Call, kind: ServedKind, definition: Object, condition: Object) -> None:
    finalizers = [each for each in definition["metadata"]["finalizers"] if each != CLEANUP]
    if finalizers:
        metadata = {**definition["metadata"], "finalizers": finalizers}
        status = _with_condition(definition["status"], condition, call.now)
        _write_status(call, kind, {**definition, "metadata": metadata}, status)
        return
    _stage(call, kind, definition, delete=True)
    _update_definition(call, kind, definition["metadata"]["name"])


def _with_condition(status: Object, condition: Object, now: str) -> Object:
    return {**status, "conditions": with_condition(status.get("conditions"), condition, now)}


def _terminating(status: str, reason: str, message: str) -> Object:
    return {"type": "Terminating", "status": status, "reason": reason, "message": message}
