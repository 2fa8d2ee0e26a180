"""DELETE of one object: immediate, graceful, or waiting for finalizers.

There are three outcomes. The object is removed from the store at once. Or it gets a ``deletionTimestamp`` and stays
until a kubelet has ended its grace period. Or it gets a ``deletionTimestamp`` and stays until its last finalizer is
removed (``_completes_deletion`` in ``apiserver/verbs/writing.py``). The strategy of a kind sets its grace period.

Below, ``call`` is the context of the request. The functions are generators: they yield effects, such as ``Commit``,
which the caller performs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Literal

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.codec import codec
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import definition_status, request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
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
    """The object after the request; ``removed``: it is not in the store any more."""

    obj: Object
    removed: bool


Steps = Generator[Effect, Any, "DeletionResult | api_errors.StatusError"]
CheckPreconditions = Callable[[RequestContext, Object, options.DeleteOptions], "api_errors.StatusError | None"]


def read_options(call: RequestContext) -> options.DeleteOptions | api_errors.StatusError:
    """The DeleteOptions of the body, or of the query if there is no body."""
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


def delete(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    delete_options = read_options(call)
    if isinstance(delete_options, api_errors.StatusError):
        return responses.refused(call, delete_options)
    if call.kind.resource == _PRIORITY_CLASSES and call.info.name in _SYSTEM_PRIORITIES:
        text = "this is a system priority class and cannot be deleted"
        return responses.refused(call, api_errors.forbidden(call.resource, call.info.name, text))
    warn_of_orphaned_pods(call, delete_options)
    item = call.api.store.read_applied(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
    delete_one = deletion_of(call.kind)
    deleted = yield from delete_one(call, item, delete_options)
    if isinstance(deleted, api_errors.StatusError):
        return responses.refused(call, deleted)
    code = 202 if not deleted.removed and delete_options.orphan_dependents is False else 200
    if call.kind.resource not in _RETURNS_OBJECT and deleted.removed:
        metadata = deleted.obj["metadata"]
        details = api_errors.StatusDetails(
            name=metadata["name"], group=call.kind.group, kind=call.kind.plural, uid=metadata.get("uid", "")
        )
        return responses.respond(call, code, api_errors.success(details))
    return responses.object_response(call, code, deleted.obj)


def warn_of_orphaned_pods(call: RequestContext, delete_options: options.DeleteOptions) -> None:
    """Warns that the pods of a Job stay, unless the request says what to do with them."""
    if (
        call.kind.resource == "jobs.batch"
        and delete_options.propagation_policy is None
        and delete_options.orphan_dependents is None
    ):
        call.warn(_JOB_WARNING)


def delete_item(call: RequestContext, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """Deletes an object. ``item`` must be its newest state, including staged writes (``Store.read_applied``)."""
    admitted = yield from _admit(call, item, delete_options, check_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    return (yield from delete_admitted(call, admitted, delete_options, admit_removal=True))


def _admit(
    call: RequestContext, item: Item, delete_options: options.DeleteOptions, check: CheckPreconditions
) -> Generator[Effect, Any, Item | api_errors.StatusError]:
    """Checks the preconditions and runs admission. Returns the item to delete, or a refusal.

    Another request may write the object while admission calls webhooks. Then both steps are repeated with the new
    state, which is returned.
    """
    while True:
        obj = stored_objects.load(call.api, call.kind, item)
        problem = check(call, obj, delete_options)
        if problem is None and _begin_deletion(call, obj, delete_options) is None:
            return item  # the request will change nothing, so admission does not run
        problem = problem or (
            yield from admission_chain.validate_delete(call, obj, _with_grace_period(call, obj, delete_options))
        )
        if problem is not None:
            return problem
        present = call.api.store.read_applied(item.resource, item.namespace, item.name)
        if present is item:
            return item
        if present is None:
            return api_errors.not_found(call.resource, item.name)
        item = present


def _with_grace_period(
    call: RequestContext, obj: Object, delete_options: options.DeleteOptions
) -> options.DeleteOptions:
    """The options for admission, with the grace period that the object will get."""
    grace, grace_period_of = delete_options.grace_period_seconds, call.strategy.graceful_delete
    grace = 1 if grace is not None and grace < 0 else grace  # as in kube-apiserver, a negative period means 1 second
    if grace_period_of is not None and "deletionTimestamp" not in obj["metadata"]:
        period = grace_period_of(obj, grace)
        grace = grace if period is None else period
    return msgspec.structs.replace(delete_options, grace_period_seconds=grace)


def delete_admitted(
    call: RequestContext, item: Item, delete_options: options.DeleteOptions, *, admit_removal: bool = False
) -> Steps:
    """Deletes an object after admission. Nothing is yielded before the change is staged.

    If the object is removed at once, the deletion timestamp is a write of its own, before the removal.
    ``admit_removal``: admission runs once more between the two, as in kube-apiserver.
    """
    obj = stored_objects.load(call.api, call.kind, item)
    begun = _begin_deletion(call, obj, delete_options)
    if begun is None:
        return (yield from _unchanged(obj, item))
    if delete_options.dry_run:
        return DeletionResult(begun.obj, removed=begun.remove_now)
    if not begun.remove_now and begun.obj == obj:
        return (yield from _unchanged(obj, item))
    deleting = stored_objects.wire_form(call.api, call.kind, begun.obj)
    if begun.remove_now and begun.obj["metadata"] != obj["metadata"]:
        # Watches see the deletion timestamp before the removal, as if a kubelet had ended the pod at once.
        with_timestamp = writing.stage(call, call.kind, deleting)
        if admit_removal:
            return (yield from _admit_removal(call, with_timestamp, _with_grace_period(call, obj, delete_options)))
        deleting = writing.with_revision(deleting, with_timestamp)
    staged = writing.stage(call, call.kind, deleting, delete=begun.remove_now)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.with_revision(deleting, staged), removed=begun.remove_now)


def _unchanged(obj: Object, item: Item) -> Steps:
    """The result of a request that changes nothing.

    The response shows ``item``, which may be staged only, so it waits for the commit of ``item``.
    """
    failure = yield from writing.commit(item.revision)
    return failure or DeletionResult(obj, removed=False)


def _admit_removal(call: RequestContext, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """Removes an object that has just got its deletion timestamp, if admission allows the removal.

    ``item`` is the staged object with the timestamp, which stays if admission refuses.
    """
    admitted = yield from _admit(call, item, options.without_preconditions(delete_options), check_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        failure = yield from writing.commit(item.revision)
        removed = DeletionResult(stored_objects.load(call.api, call.kind, item), removed=True)
        return failure or (removed if admitted.reason == "NotFound" else admitted)  # another request has removed it
    obj = stored_objects.load(call.api, call.kind, admitted)
    staged = writing.stage(call, call.kind, obj, delete=True)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.with_revision(obj, staged), removed=True)


def delete_namespace(call: RequestContext, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """Sets the deletion timestamp and the phase Terminating of a namespace.

    The namespace stays until the namespace controller has deleted its content and removed ``spec.finalizers``.
    """
    obj = stored_objects.load(call.api, call.kind, item)
    problem = _check_storage_preconditions(call, obj, delete_options)
    if problem is not None:
        return problem
    if "deletionTimestamp" in obj["metadata"]:
        if (obj.get("spec") or {}).get("finalizers"):
            return (yield from _unchanged(obj, item))
        return (yield from delete_item(call, item, delete_options))
    # A namespace that another request creates under this name while admission runs must not be deleted.
    delete_options = msgspec.structs.replace(delete_options, uid=obj["metadata"]["uid"])
    admitted = yield from _admit(call, item, delete_options, _check_storage_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    obj = stored_objects.load(call.api, call.kind, admitted)
    metadata = dict(obj["metadata"])
    metadata["deletionTimestamp"] = call.now
    _set_finalizers(call, metadata, delete_options)
    terminating = {**obj, "metadata": metadata, "status": {**(obj.get("status") or {}), "phase": "Terminating"}}
    return (yield from _store_terminating(call, terminating, delete_options))


def delete_crd(call: RequestContext, item: Item, delete_options: options.DeleteOptions) -> Steps:
    """Sets the deletion timestamp and the condition Terminating of a CustomResourceDefinition.

    ``apiserver/registry/definition_status.py`` removes it with the last of its custom objects.
    """
    obj = stored_objects.load(call.api, call.kind, item)
    if "deletionTimestamp" in obj["metadata"]:
        return (yield from delete_item(call, item, delete_options))
    admitted = yield from _admit(call, item, delete_options, _check_storage_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    obj = stored_objects.load(call.api, call.kind, admitted)
    terminating = definition_status.with_deletion_timestamp(obj, call.now)
    return (yield from _store_terminating(call, terminating, delete_options))


def _store_terminating(call: RequestContext, terminating: Object, delete_options: options.DeleteOptions) -> Steps:
    if delete_options.dry_run:
        return DeletionResult(terminating, removed=False)
    staged = writing.stage(call, call.kind, terminating)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.with_revision(terminating, staged), removed=False)


_SPECIAL_DELETIONS: Final = {"namespaces": delete_namespace, definition_status.CRD_RESOURCE: delete_crd}


def deletion_of(kind: ServedKind) -> Callable[[RequestContext, Item, options.DeleteOptions], Steps]:
    """The function that deletes one object of a kind."""
    return _SPECIAL_DELETIONS.get(kind.resource, delete_item)


def _check_storage_preconditions(
    call: RequestContext, obj: Object, delete_options: options.DeleteOptions
) -> api_errors.StatusError | None:
    """For namespaces and CustomResourceDefinitions: the same checks as for other kinds, with other error texts."""
    metadata = obj["metadata"]
    for label, requested, actual in (
        ("UID", delete_options.uid, metadata["uid"]),
        ("ResourceVersion", delete_options.resource_version, metadata["resourceVersion"]),
    ):
        if requested is not None and requested != actual:
            text = f"Precondition failed: {label} in precondition: {requested}, {label} in object meta: {actual}"
            return api_errors.conflict(call.resource, metadata["name"], text)
    return None


def check_preconditions(
    call: RequestContext, obj: Object, delete_options: options.DeleteOptions
) -> api_errors.StatusError | None:
    """The conflict if the request names another uid or resourceVersion than that of ``obj``."""
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


class _BegunDeletion(msgspec.Struct, frozen=True):
    """The object as it is stored next; ``remove_now``: neither a grace period nor a finalizer keeps it."""

    obj: Object
    remove_now: bool


def _begin_deletion(call: RequestContext, obj: Object, delete_options: options.DeleteOptions) -> _BegunDeletion | None:
    """Begins the deletion in a copy of ``obj``.

    ``None`` if the object is already in its grace period and the request does not shorten it. An object without a grace
    period and without finalizers is returned without a deletion timestamp: it is removed at once.
    """
    deleting = {**obj, "metadata": dict(obj["metadata"])}
    metadata = deleting["metadata"]
    outcome = _start_grace_period(call, deleting, delete_options)
    if outcome == "unchanged":
        return None
    finalizers = _set_finalizers(call, metadata, delete_options)
    if outcome == "started":
        return _BegunDeletion(deleting, not finalizers and metadata["deletionGracePeriodSeconds"] == 0)
    if finalizers:
        _set_deletion_timestamp(call, metadata)
        return _BegunDeletion(deleting, remove_now=False)
    return _BegunDeletion(deleting, remove_now=True)


def _start_grace_period(
    call: RequestContext, obj: Object, delete_options: options.DeleteOptions
) -> Literal["started", "unchanged", "none"]:
    """Starts or shortens the grace period of ``obj``.

    ``unchanged``: it is in a grace period that is not longer than the requested one. ``none``: it has no grace period.
    """
    metadata = obj["metadata"]
    requested = delete_options.grace_period_seconds
    requested = 1 if requested is not None and requested < 0 else requested
    grace_period_of = call.strategy.graceful_delete
    if grace_period_of is None:
        return "none"
    if "deletionTimestamp" in metadata:
        current = max(metadata.get("deletionGracePeriodSeconds") or 0, 0)
        if current == 0:
            return "none"
        if requested is None or requested >= current:
            return "unchanged"
        _shorten_grace_period(call, metadata, current, requested)
        return "started"
    period = grace_period_of(obj, requested)
    if period is None:
        return "none"
    metadata["deletionTimestamp"] = timestamps.format_time(call.moment.epoch_s + period)
    metadata["deletionGracePeriodSeconds"] = period
    _bump_generation(metadata)
    return "started"


def _shorten_grace_period(call: RequestContext, metadata: Object, current: int, requested: int) -> None:
    """Sets the end of a grace period that has begun to ``requested`` seconds after its start, but not before now."""
    due = timestamps.parse_time(metadata["deletionTimestamp"])  # a str is a parse error
    start = (due if isinstance(due, int) else int(call.moment.epoch_s)) - current
    end, now = start + requested, int(call.moment.epoch_s)
    if end < now:
        end, requested = now, min(requested, 1)
    metadata["deletionTimestamp"] = timestamps.format_time(end)
    metadata["deletionGracePeriodSeconds"] = requested


def _set_deletion_timestamp(call: RequestContext, metadata: Object) -> None:
    """For an object that waits only for finalizers: the deletion timestamp is now, without a grace period."""
    if "deletionTimestamp" not in metadata:
        _bump_generation(metadata)
        metadata["deletionTimestamp"] = call.now
    elif metadata["deletionTimestamp"] > call.now:
        metadata["deletionTimestamp"] = call.now
    metadata["deletionGracePeriodSeconds"] = 0


def _bump_generation(metadata: Object) -> None:
    """Increases the generation of an object that has one; kinds without generations have none, or 0."""
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def _set_finalizers(call: RequestContext, metadata: Object, delete_options: options.DeleteOptions) -> list[str]:
    """Adds or removes the finalizers of the propagation policy. Returns all finalizers of the object."""
    finalizers = finalizers_after(call.kind.resource, metadata.get("finalizers") or [], delete_options)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return finalizers
