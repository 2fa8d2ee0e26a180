"""Updates the status of a CustomResourceDefinition (CRD) after a write: accepted names, conditions, finalization.

In kube-apiserver, controllers do this some time later. Here these writes are staged together with the first write, so
that the kind is served as soon as the response to the creation is sent. When a CRD is deleted, its custom objects are
deleted in the same step. The writes are those of kube-apiserver, one by one, and watches see each of them.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import track_update
from headgate.apimachinery.strategy.prepare import SPEC_AND_METADATA
from headgate.apiserver.custom import definition_names
from headgate.apiserver.custom.definition import is_true
from headgate.apiserver.custom.name_index import CRDNames
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.request_context import RequestContext
from headgate.kube.conditions import find, with_condition
from headgate.kube.schema import GroupVersionKind
from headgate.store import Item

Object = dict[str, Any]

CRD_RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"
INSTANCE_DELETION_PENDING: Final = "InstanceDeletionPending"  # the reason of the condition Terminating
CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_MANAGER: Final = "kube-apiserver"
_CRD_GVK: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def update_after_write(call: RequestContext, kind: ServedKind, item: Item) -> None:
    """Stages the status writes that follow from ``item``, which was just staged.

    ``item`` is a CRD, or a custom object that was deleted. The deletion of the last custom object also removes a CRD
    that is being deleted.
    """
    if kind.resource == CRD_RESOURCE:
        _update_crds(call, kind, item.name)
        return
    # The resource of a custom object is also the name of its CRD: "widgets.example.com".
    crd_item = call.api.store.read_applied(CRD_RESOURCE, "", item.resource)
    crd_kind = call.api.kinds.by_gvk(_CRD_GVK)
    if crd_item is not None and crd_kind is not None:
        crd = stored_objects.decode(crd_item.data)
        if _waits_for_cleanup(crd) and _terminating_reason(crd) != INSTANCE_DELETION_PENDING:
            _remove_if_without_objects(call, crd_kind, crd)


def refusal(call: RequestContext, obj: Object) -> api_errors.StatusError | None:
    """The error for a new object of a custom kind whose CRD is terminating or already deleted."""
    item = call.api.store.read_applied(CRD_RESOURCE, "", call.kind.resource)
    if item is None:
        return api_errors.unknown_path()
    if not call.kind.terminating and item.revision <= call.api.store.committed:
        return None  # call.kind is compiled from the committed CRD, and no newer CRD is staged
    if not is_true(stored_objects.decode(item.data), "Terminating"):
        return None
    text = "create not allowed while custom resource definition is terminating"
    return api_errors.forbidden(call.resource, call.info.name or obj["metadata"].get("name", ""), text)


def _update_crds(call: RequestContext, kind: ServedKind, name: str) -> None:
    """Updates the status of the CRD ``name``.

    If its names changed or it was deleted, names may have become free, so the CRDs of its group that are not
    established yet are updated, too.
    """
    item = call.api.store.read_applied(CRD_RESOURCE, "", name)
    if item is None or _update_status(call, kind, stored_objects.decode(item.data)):
        for other in _crds_of_group(call, name.partition(".")[2]):
            if other.status_may_change and other.item.name != name:
                _update_status(call, kind, stored_objects.decode(other.item.data))


def _update_status(call: RequestContext, kind: ServedKind, crd: Object) -> bool:
    """Writes all status changes of one CRD that are due now. Returns whether its names changed."""
    if _waits_for_cleanup(crd):
        if _terminating_reason(crd) == INSTANCE_DELETION_PENDING:
            _delete_custom_objects(call, kind, crd)
        return False
    approved = definition_names.approve(crd, call.now)
    if approved is not None:
        crd = _write_status(call, kind, crd, approved)
    with_names = definition_names.accept(crd, _taken_names(call, crd), call.now)
    if with_names is not None:
        crd = _write_status(call, kind, crd, with_names)
    established = definition_names.establish(crd, call.now)
    if established is not None:
        _write_status(call, kind, crd, established)
    return with_names is not None


def _crds_of_group(call: RequestContext, group: str) -> list[CRDNames]:
    return call.api.crd_name_index.of_group(call.api.store.list_applied(CRD_RESOURCE, None), group)


def _terminating_reason(crd: Object) -> str:
    """The reason of the condition Terminating; empty without that condition."""
    found = find(crd["status"].get("conditions"), "Terminating")
    return "" if found is None else str(found.get("reason"))


def _taken_names(call: RequestContext, crd: Object) -> definition_names.TakenNames:
    """The accepted names of all CRDs in the group of ``crd``.

    The result is empty if all names of ``crd`` are accepted already: then no name has to be compared.
    """
    taken = definition_names.TakenNames(set(), set())
    if not definition_names.all_names_accepted(crd):
        for other in _crds_of_group(call, crd["spec"]["group"]):
            taken.add(other.names)
    return taken


def _write_status(call: RequestContext, kind: ServedKind, old: Object, new_status: Object) -> Object:
    """Stages ``old`` with another status, and returns the new object.

    Only the status is brought into wire form: the other fields have it already, and the schemas in them may be large.
    """
    wire = stored_objects.wire_form(call.api, kind, {"metadata": {}, "spec": {}, "status": new_status})
    tracked = track_update(
        call.api.scheme_of(kind).typed,
        old,
        {**old, "status": wire["status"]},
        manager=_MANAGER,
        api_version=kind.api_version,
        subresource="status",
        now=call.now,
        reset=SPEC_AND_METADATA,
    )
    return _stage(call, kind, tracked)


def _stage(call: RequestContext, kind: ServedKind, obj: Object, *, delete: bool = False) -> Object:
    """Stages a write of a CRD or of a custom object. Returns the object with its new revision."""
    store = call.api.store
    item = stored_objects.make_item(call.api, kind, obj, store.next_revision())
    store.stage(item, delete=delete)
    if item.resource == CRD_RESOURCE and not delete:
        call.api.compile_staged_crd(item)
    return stored_objects.with_revision(obj, item.revision)


def with_deletion_timestamp(crd: Object, now: str) -> Object:
    """The CRD with a deletion timestamp, the cleanup finalizer and the condition Terminating."""
    metadata = {**crd["metadata"], "deletionTimestamp": now}
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if CLEANUP_FINALIZER in finalizers else [*finalizers, CLEANUP_FINALIZER]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    status = _with_condition(crd["status"], _terminating("True", INSTANCE_DELETION_PENDING, message), now)
    return {**crd, "metadata": metadata, "status": status}


def _waits_for_cleanup(crd: Object) -> bool:
    """Whether the CRD is being deleted and keeps the finalizer that waits for the deletion of its custom objects."""
    metadata = crd["metadata"]
    return "deletionTimestamp" in metadata and CLEANUP_FINALIZER in (metadata.get("finalizers") or ())


def _delete_custom_objects(call: RequestContext, kind: ServedKind, crd: Object) -> None:
    """Deletes all custom objects of a CRD that is being deleted, and the CRD itself if none of them remains."""
    progress = _terminating("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    crd = _write_status(call, kind, crd, _with_condition(crd["status"], progress, call.now))
    if not is_true(crd, "Established"):
        never_established = _terminating("False", "NeverEstablished", "resource was never established")
        _finish_cleanup(call, kind, crd, never_established)
        return
    resource = crd["metadata"]["name"]
    versions = call.api.kinds.kinds_stored_as(resource)
    if versions:  # each version reads all objects, so any of them can be used
        for item in list(call.api.store.list_applied(resource, None)):
            _delete_custom_object(call, versions[0], item)
    _remove_if_without_objects(call, kind, crd)


def _delete_custom_object(call: RequestContext, kind: ServedKind, item: Item) -> None:
    """Removes a custom object. If it has finalizers, it only gets a deletion timestamp."""
    obj = stored_objects.load(call.api, kind, item)
    metadata = dict(obj["metadata"])
    if not metadata.get("finalizers"):
        _stage(call, kind, obj, delete=True)
    elif "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = call.now, 0
        metadata["generation"] = metadata.get("generation", 0) + 1
        _stage(call, kind, stored_objects.wire_form(call.api, kind, {**obj, "metadata": metadata}))


def _remove_if_without_objects(call: RequestContext, kind: ServedKind, crd: Object) -> None:
    resource = crd["metadata"]["name"]
    if any(True for _ in call.api.store.list_applied(resource, None)):
        return  # some objects wait for finalizers; the deletion of the last one calls this function again
    completed = _terminating("False", "InstanceDeletionCompleted", "removed all instances")
    _finish_cleanup(call, kind, crd, completed)


def _finish_cleanup(call: RequestContext, kind: ServedKind, crd: Object, terminating: Object) -> None:
    """Removes the cleanup finalizer. Without other finalizers the CRD is deleted; otherwise it gets the condition
    ``terminating``."""
    finalizers = [each for each in crd["metadata"]["finalizers"] if each != CLEANUP_FINALIZER]
    if finalizers:
        metadata = {**crd["metadata"], "finalizers": finalizers}
        status = _with_condition(crd["status"], terminating, call.now)
        _write_status(call, kind, {**crd, "metadata": metadata}, status)
        return
    _stage(call, kind, crd, delete=True)
    _update_crds(call, kind, crd["metadata"]["name"])


def _with_condition(status: Object, condition: Object, now: str) -> Object:
    return {**status, "conditions": with_condition(status.get("conditions"), condition, now)}


def _terminating(status: str, reason: str, message: str) -> Object:
    """The condition Terminating."""
    return {"type": "Terminating", "status": status, "reason": reason, "message": message}
