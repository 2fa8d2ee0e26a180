"""DELETE of one object: immediate, graceful, or waiting for finalizers.

There are three outcomes. The object is removed; or it gets a ``deletionTimestamp`` and stays until a kubelet has ended
its grace period; or it gets one and stays until its last finalizer is removed, which ``apiserver/verbs/writing.py``
notices. The strategy of a kind sets its grace period.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.codec import codec
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import definition_status, request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.verbs import writing
from headgate.apiserver.verbs.deletion_finalizers import finalizers_after
from headgate.kube import timestamps
from headgate.kube.schema import GroupVersionKind
from headgate.store import Item

Object = dict[str, Any]

_OPTIONS_TYPE: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_OPTIONS: Final = GroupVersionKind("", "v1", "DeleteOptions")

# Kinds whose DELETE returns the deleted object; the others return a Status.
_RETURNS_OBJECT: Final = frozenset(
    {
        "namespaces",
        "persistentvolumes",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "resourcequotas",
        "services",
        "serviceaccounts",
        "deviceclasses.resource.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    }
)
_JOB_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
_PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_SYSTEM_PRIORITIES: Final = frozenset({"system-node-critical", "system-cluster-critical"})


class DeletionResult(msgspec.Struct, frozen=True):
    """The object after the delete; ``gone``: it was removed."""

    obj: Object
    gone: bool


Steps = Generator[Effect, Any, "DeletionResult | api_errors.StatusError"]
Preconditions = Callable[[Call, Object, options.DeleteOptions], "api_errors.StatusError | None"]


def read_options(call: Call) -> options.DeleteOptions | api_errors.StatusError:
    body = call.request.body
    if not body:
        return options.delete_options_from_query(call.query)
    found = request_bodies.read_body(call)
    if isinstance(found, api_errors.StatusError):
        return found
    if isinstance(found, str):
        return api_errors.bad_request(found)
    gvk = found.gvk(_OPTIONS)
    if gvk.kind != _OPTIONS.kind:
        return api_errors.bad_request(request_bodies.unregistered(gvk))
    parsed = request_bodies.parsed_body(call, found, _OPTIONS_TYPE)
    if isinstance(parsed, str):
        return api_errors.bad_request(parsed)
    decoded = codec.convert(call.api.schemas, _OPTIONS_TYPE, parsed.value)
    if decoded.error is not None:
        return api_errors.bad_request(decoded.error)
    return options.delete_options(decoded.obj)


def delete(call: Call) -> Generator[Effect, Any, ServerResponse]:
    patch_options = read_options(call)
    if isinstance(patch_options, api_errors.StatusError):
        return responses.refused(call, patch_options)
    if call.kind.resource == _PRIORITY_CLASSES and call.info.name in _SYSTEM_PRIORITIES:
        text = "this is a system priority class and cannot be deleted"
        return responses.refused(call, api_errors.forbidden(call.resource, call.info.name, text))
    warn_of_orphans(call, patch_options)
    item = call.api.store.peek(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
    remove = deletion_of(call.kind)
    deleted = yield from remove(call, item, patch_options)
    if isinstance(deleted, api_errors.StatusError):
        return responses.refused(call, deleted)
    code = 202 if not deleted.gone and patch_options.orphan_dependents is False else 200
    if call.kind.resource not in _RETURNS_OBJECT and deleted.gone:
        metadata = deleted.obj["metadata"]
        details = api_errors.StatusDetails(
            name=metadata["name"], group=call.kind.group, kind=call.kind.plural, uid=metadata.get("uid", "")
        )
        return responses.respond(call, code, api_errors.success(details))
    return responses.object_response(call, code, deleted.obj)


def warn_of_orphans(call: Call, delete_options: options.DeleteOptions) -> None:
    if (
        call.kind.resource == "jobs.batch"
        and delete_options.propagation_policy is None
        and delete_options.orphan_dependents is None
    ):
        call.warn(_JOB_WARNING)


def delete_item(call: Call, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """Deletes an object; ``item`` must be its state in the applied head."""
    admitted = yield from _admit(call, item, delete_options, preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    return (yield from remove(call, admitted, delete_options, runs_admission=True))


def _admit(
    call: Call, item: Item, delete_options: options.DeleteOptions, check: Preconditions
) -> Generator[Effect, Any, Item | api_errors.StatusError]:
    """Runs admission. Returns the item to delete, which may have changed meanwhile."""
    while True:
        obj = stored_objects.load(call.api, call.kind, item)
        problem = check(call, obj, delete_options)
        if problem is None and _mark_deleted(call, obj, delete_options) is None:
            return item  # nothing will change, so admission does not run
        problem = problem or (
            yield from admission_chain.validate_delete(call, obj, _with_grace_period(call, obj, delete_options))
        )
        if problem is not None:
            return problem
        present = call.api.store.peek(item.resource, item.namespace, item.name)
        if present is item:
            return item
        if present is None:
            return api_errors.not_found(call.resource, item.name)
        item = present


def _with_grace_period(call: Call, obj: Object, delete_options: options.DeleteOptions) -> options.DeleteOptions:
    """The options for admission, with the grace period that the object will get."""
    grace, decide = delete_options.grace_period_seconds, call.strategy.graceful_delete
    grace = 1 if grace is not None and grace < 0 else grace
    if decide is not None and "deletionTimestamp" not in obj["metadata"]:
        period = decide(obj, grace)
        grace = grace if period is None else period
    return msgspec.structs.replace(delete_options, grace_period_seconds=grace)


def remove(call: Call, item: Item, delete_options: options.DeleteOptions, *, runs_admission: bool = False) -> Steps:
    """Deletes an object after admission. Nothing is yielded before the change is staged.

    An object that is removed at once is first marked as deleted. ``runs_admission``: admission also runs for the
    removal.
    """
    obj = stored_objects.load(call.api, call.kind, item)
    changed = _mark_deleted(call, obj, delete_options)
    if changed is None:
        # The object is already being deleted, and this request does not shorten its grace period.
        failure = yield from writing.commit(item.revision)
        return failure or DeletionResult(obj, gone=False)
    marked, remove = changed
    if delete_options.dry_run:
        return DeletionResult(marked, gone=remove)
    if not remove and marked == obj:
        failure = yield from writing.commit(item.revision)
        return failure or DeletionResult(obj, gone=False)
    canonical = stored_objects.canonical(call.api, call.kind, marked)
    if remove and marked["metadata"] != obj["metadata"]:
        # Watches see the deletion timestamp before the removal, as with a kubelet that needs no time.
        mark = writing.stage(call, call.kind, canonical)
        if runs_admission:
            return (yield from _remove_marked(call, mark, _with_grace_period(call, obj, delete_options)))
        canonical = writing.with_revision(canonical, mark)
    staged = writing.stage(call, call.kind, canonical, delete=remove)
    failure = yield from writing.commit(staged.revision)
    if failure is not None:
        return failure
    return DeletionResult(writing.with_revision(canonical, staged), gone=remove)


def _remove_marked(call: Call, mark: Item, delete_options: options.DeleteOptions) -> Steps:
    """Removes an object that was just marked, if admission allows it; otherwise the mark stays."""
    admitted = yield from _admit(call, mark, options.without_preconditions(delete_options), preconditions)
    if isinstance(admitted, api_errors.StatusError):
        failure = yield from writing.commit(mark.revision)
        gone = DeletionResult(stored_objects.load(call.api, call.kind, mark), gone=True)
        return failure or (gone if admitted.reason == "NotFound" else admitted)
    obj = stored_objects.load(call.api, call.kind, admitted)
    staged = writing.stage(call, call.kind, obj, delete=True)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.with_revision(obj, staged), gone=True)


def delete_namespace(call: Call, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """A namespace is only marked. It is removed when the namespace controller has emptied ``spec.finalizers``."""
    obj = stored_objects.load(call.api, call.kind, item)
    problem = _namespace_preconditions(call, obj, delete_options)
    if problem is not None:
        return problem
    if "deletionTimestamp" in obj["metadata"]:
        if (obj.get("spec") or {}).get("finalizers"):
            failure = yield from writing.commit(item.revision)
            return failure or DeletionResult(obj, gone=False)
        return (yield from delete_item(call, item, delete_options))
    delete_options = msgspec.structs.replace(delete_options, uid=obj["metadata"]["uid"])
    admitted = yield from _admit(call, item, delete_options, _namespace_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    obj = stored_objects.load(call.api, call.kind, admitted)
    metadata = dict(obj["metadata"])
    metadata["deletionTimestamp"] = call.now
    _set_finalizers(call, metadata, delete_options)
    marked = {**obj, "metadata": metadata, "status": {**(obj.get("status") or {}), "phase": "Terminating"}}
    if delete_options.dry_run:
        return DeletionResult(marked, gone=False)
    staged = writing.stage(call, call.kind, marked)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.with_revision(marked, staged), gone=False)


def delete_definition(call: Call, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """A definition is only marked. ``apiserver/registry/definition_status.py`` removes it with the last of its
    objects."""
    obj = stored_objects.load(call.api, call.kind, item)
    if "deletionTimestamp" in obj["metadata"]:
        return (yield from delete_item(call, item, delete_options))
    admitted = yield from _admit(call, item, delete_options, _namespace_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    marked = definition_status.mark_terminating(stored_objects.load(call.api, call.kind, admitted), call.now)
    if delete_options.dry_run:
        return DeletionResult(marked, gone=False)
    staged = writing.stage(call, call.kind, marked)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.with_revision(marked, staged), gone=False)


_SPECIAL_DELETIONS: Final = {"namespaces": delete_namespace, definition_status.DEFINITIONS: delete_definition}


def deletion_of(kind: ServedKind) -> Callable[[Call, Item, options.DeleteOptions], Steps]:
    """The function that deletes one object of a kind."""
    return _SPECIAL_DELETIONS.get(kind.resource, delete_item)


def _namespace_preconditions(
    call: Call, obj: Object, delete_options: options.DeleteOptions
) -> api_errors.StatusError | None:
    """The same checks as for other kinds, with other texts."""
    metadata = obj["metadata"]
    for label, requested, actual in (
        ("UID", delete_options.uid, metadata["uid"]),
        ("ResourceVersion", delete_options.resource_version, metadata["resourceVersion"]),
    ):
        if requested is not None and requested != actual:
            text = f"Precondition failed: {label} in precondition: {requested}, {label} in object meta: {actual}"
            return api_errors.conflict(call.resource, metadata["name"], text)
    return None


def preconditions(call: Call, obj: Object, delete_options: options.DeleteOptions) -> api_errors.StatusError | None:
    metadata = obj["metadata"]
    kind = api_errors.GroupResource(call.kind.group, call.kind.kind)
    if delete_options.uid is not None and delete_options.uid != metadata["uid"]:
        text = (
            f"the UID in the precondition ({delete_options.uid}) does not match the UID in record ({metadata['uid']})."
        )
        return api_errors.conflict(
            kind, metadata["name"], f"{text} The object might have been deleted and then recreated"
        )
    version = metadata["resourceVersion"]
    if delete_options.resource_version is not None and delete_options.resource_version != version:
        text = f"the ResourceVersion in the precondition ({delete_options.resource_version}) does not match"
        text = f"{text} the ResourceVersion in record ({version}). The object might have been modified"
        return api_errors.conflict(kind, metadata["name"], text)
    return None


def _mark_deleted(call: Call, obj: Object, delete_options: options.DeleteOptions) -> tuple[Object, bool] | None:
    """The object after the delete, and whether it is removed now; ``None`` if nothing changes."""
    marked = {**obj, "metadata": dict(obj["metadata"])}
    metadata = marked["metadata"]
    graceful = _start_grace_period(call, marked, delete_options)
    if graceful is None:
        return None
    finalizers = _set_finalizers(call, metadata, delete_options)
    if graceful:
        return marked, not finalizers and metadata["deletionGracePeriodSeconds"] == 0
    if finalizers:
        _mark_as_deleting(call, metadata)
        return marked, False
    return marked, True


def _start_grace_period(call: Call, obj: Object, delete_options: options.DeleteOptions) -> bool | None:
    """Starts or shortens the grace period. Returns whether there is one; ``None`` if nothing changes."""
    metadata = obj["metadata"]
    requested = delete_options.grace_period_seconds
    requested = 1 if requested is not None and requested < 0 else requested
    decide = call.strategy.graceful_delete
    if decide is None:
        return False
    if "deletionTimestamp" in metadata:
        current = max(metadata.get("deletionGracePeriodSeconds") or 0, 0)
        if current == 0:
            return False
        if requested is None or requested >= current:
            return None
        _shorten(call, metadata, current, requested)
        return True
    period = decide(obj, requested)
    if period is None:
        return False
    metadata["deletionTimestamp"] = timestamps.format_time(call.moment.epoch_s + period)
    metadata["deletionGracePeriodSeconds"] = period
    _bump_generation(metadata)
    return True


def _shorten(call: Call, metadata: Object, current: int, requested: int) -> None:
    due = timestamps.parse_time(metadata["deletionTimestamp"])
    start = (due if isinstance(due, int) else int(call.moment.epoch_s)) - current
    end, now = start + requested, int(call.moment.epoch_s)
    if end < now:
        end, requested = now, min(requested, 1)
    metadata["deletionTimestamp"] = timestamps.format_time(end)
    metadata["deletionGracePeriodSeconds"] = requested


def _mark_as_deleting(call: Call, metadata: Object) -> None:
    """The object waits only for finalizers, without a grace period."""
    if "deletionTimestamp" not in metadata:
        _bump_generation(metadata)
        metadata["deletionTimestamp"] = call.now
    elif metadata["deletionTimestamp"] > call.now:
        metadata["deletionTimestamp"] = call.now
    metadata["deletionGracePeriodSeconds"] = 0


def _bump_generation(metadata: Object) -> None:
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def _set_finalizers(call: Call, metadata: Object, delete_options: options.DeleteOptions) -> list[str]:
    finalizers = finalizers_after(call.kind.resource, metadata.get("finalizers") or [], delete_options)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return finalizers
