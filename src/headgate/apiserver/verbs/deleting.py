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

# Kinds whose DELETE answers with the object that is gone; the others answer with a Status.
_ANSWERS_WITH_OBJECT: Final = frozenset(
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
    """The object as it was left; ``gone`` when nothing of it remains."""

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
    wanted = read_options(call)
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, wanted)
    if call.kind.resource == _PRIORITY_CLASSES and call.info.name in _SYSTEM_PRIORITIES:
        text = "this is a system priority class and cannot be deleted"
        return responses.refused(call, api_errors.forbidden(call.resource, call.info.name, text))
    warn_of_orphans(call, wanted)
    item = call.api.store.peek(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
    remove = deletion_of(call.kind)
    deleted = yield from remove(call, item, wanted)
    if isinstance(deleted, api_errors.StatusError):
        return responses.refused(call, deleted)
    code = 202 if not deleted.gone and wanted.orphan_dependents is False else 200
    if call.kind.resource not in _ANSWERS_WITH_OBJECT and deleted.gone:
        metadata = deleted.obj["metadata"]
        details = api_errors.StatusDetails(
            name=metadata["name"], group=call.kind.group, kind=call.kind.plural, uid=metadata.get("uid", "")
        )
        return responses.answer(call, code, api_errors.success(details))
    return responses.object_answer(call, code, deleted.obj)


def warn_of_orphans(call: Call, wanted: options.DeleteOptions) -> None:
    if call.kind.resource == "jobs.batch" and wanted.propagation_policy is None and wanted.orphan_dependents is None:
        call.warn(_JOB_WARNING)


def delete_item(call: Call, item: Item, wanted: options.DeleteOptions) -> Steps:
    """Delete what is in the applied head; ``item`` must be the newest there."""
    admitted = yield from _admitted(call, item, wanted, preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    return (yield from remove(call, admitted, wanted, judged=True))


def _admitted(
    call: Call, item: Item, wanted: options.DeleteOptions, check: Preconditions
) -> Generator[Effect, Any, Item | api_errors.StatusError]:
    """``item``, or what it became while admission was asked, once it may be deleted."""
    while True:
        obj = stored_objects.load(call.api, call.kind, item)
        problem = check(call, obj, wanted)
        if problem is None and _mark(call, obj, wanted) is None:
            return item  # nothing will be done, so nobody is asked
        problem = problem or (yield from admission_chain.validate_delete(call, obj, _granted(call, obj, wanted)))
        if problem is not None:
            return problem
        present = call.api.store.peek(item.resource, item.namespace, item.name)
        if present is item:
            return item
        if present is None:
            return api_errors.not_found(call.resource, item.name)
        item = present


def _granted(call: Call, obj: Object, wanted: options.DeleteOptions) -> options.DeleteOptions:
    """The options with the grace period that the object will get: what admission is shown."""
    grace, decide = wanted.grace_period_seconds, call.strategy.graceful_delete
    grace = 1 if grace is not None and grace < 0 else grace
    if decide is not None and "deletionTimestamp" not in obj["metadata"]:
        granted = decide(obj, grace)
        grace = grace if granted is None else granted
    return msgspec.structs.replace(wanted, grace_period_seconds=grace)


def remove(call: Call, item: Item, wanted: options.DeleteOptions, *, judged: bool = False) -> Steps:
    """Delete what may be deleted. Nothing is yielded before it is staged.

    An object that ends at once is first marked, then removed; ``judged``: admission is asked about both.
    """
    obj = stored_objects.load(call.api, call.kind, item)
    changed = _mark(call, obj, wanted)
    if changed is None:
        # Deletion is under way already and this request does not shorten it.
        failure = yield from writing.commit(item.revision)
        return failure or DeletionResult(obj, gone=False)
    marked, remove = changed
    if wanted.dry_run:
        return DeletionResult(marked, gone=remove)
    if not remove and marked == obj:
        failure = yield from writing.commit(item.revision)
        return failure or DeletionResult(obj, gone=False)
    tidy = stored_objects.canonical(call.api, call.kind, marked)
    if remove and marked["metadata"] != obj["metadata"]:
        # Watchers see the mark before the end, as if a kubelet had needed no time at all.
        mark = writing.stage(call, call.kind, tidy)
        if judged:
            return (yield from _end(call, mark, _granted(call, obj, wanted)))
        tidy = writing.stamped(tidy, mark)
    staged = writing.stage(call, call.kind, tidy, delete=remove)
    failure = yield from writing.commit(staged.revision)
    if failure is not None:
        return failure
    return DeletionResult(writing.stamped(tidy, staged), gone=remove)


def _end(call: Call, mark: Item, wanted: options.DeleteOptions) -> Steps:
    """Remove an object that was just marked, if admission agrees once more; if not, the mark stays."""
    admitted = yield from _admitted(call, mark, options.without_preconditions(wanted), preconditions)
    if isinstance(admitted, api_errors.StatusError):
        failure = yield from writing.commit(mark.revision)
        gone = DeletionResult(stored_objects.load(call.api, call.kind, mark), gone=True)
        return failure or (gone if admitted.reason == "NotFound" else admitted)
    obj = stored_objects.load(call.api, call.kind, admitted)
    staged = writing.stage(call, call.kind, obj, delete=True)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.stamped(obj, staged), gone=True)


def delete_namespace(call: Call, item: Item, wanted: options.DeleteOptions) -> Steps:
    """A namespace is only marked: it ends when whoever empties it has taken off the last entry of spec.finalizers."""
    obj = stored_objects.load(call.api, call.kind, item)
    problem = _namespace_preconditions(call, obj, wanted)
    if problem is not None:
        return problem
    if "deletionTimestamp" in obj["metadata"]:
        if (obj.get("spec") or {}).get("finalizers"):
            failure = yield from writing.commit(item.revision)
            return failure or DeletionResult(obj, gone=False)
        return (yield from delete_item(call, item, wanted))
    wanted = msgspec.structs.replace(wanted, uid=obj["metadata"]["uid"])
    admitted = yield from _admitted(call, item, wanted, _namespace_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    obj = stored_objects.load(call.api, call.kind, admitted)
    metadata = dict(obj["metadata"])
    metadata["deletionTimestamp"] = call.now
    _set_finalizers(call, metadata, wanted)
    marked = {**obj, "metadata": metadata, "status": {**(obj.get("status") or {}), "phase": "Terminating"}}
    if wanted.dry_run:
        return DeletionResult(marked, gone=False)
    staged = writing.stage(call, call.kind, marked)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.stamped(marked, staged), gone=False)


def delete_definition(call: Call, item: Item, wanted: options.DeleteOptions) -> Steps:
    """A definition is only marked: it goes with the last of its objects, which
    ``apiserver/registry/definition_status.py`` sees to."""
    obj = stored_objects.load(call.api, call.kind, item)
    if "deletionTimestamp" in obj["metadata"]:
        return (yield from delete_item(call, item, wanted))
    admitted = yield from _admitted(call, item, wanted, _namespace_preconditions)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    marked = definition_status.mark_terminating(stored_objects.load(call.api, call.kind, admitted), call.now)
    if wanted.dry_run:
        return DeletionResult(marked, gone=False)
    staged = writing.stage(call, call.kind, marked)
    failure = yield from writing.commit(staged.revision)
    return failure or DeletionResult(writing.stamped(marked, staged), gone=False)


_OWN_DELETIONS: Final = {"namespaces": delete_namespace, definition_status.DEFINITIONS: delete_definition}


def deletion_of(kind: ServedKind) -> Callable[[Call, Item, options.DeleteOptions], Steps]:
    """How one object of a kind is deleted."""
    return _OWN_DELETIONS.get(kind.resource, delete_item)


def _namespace_preconditions(call: Call, obj: Object, wanted: options.DeleteOptions) -> api_errors.StatusError | None:
    """The same as of any other kind; only the words differ."""
    metadata = obj["metadata"]
    for label, asked, actual in (
        ("UID", wanted.uid, metadata["uid"]),
        ("ResourceVersion", wanted.resource_version, metadata["resourceVersion"]),
    ):
        if asked is not None and asked != actual:
            text = f"Precondition failed: {label} in precondition: {asked}, {label} in object meta: {actual}"
            return api_errors.conflict(call.resource, metadata["name"], text)
    return None


def preconditions(call: Call, obj: Object, wanted: options.DeleteOptions) -> api_errors.StatusError | None:
    metadata = obj["metadata"]
    kind = api_errors.GroupResource(call.kind.group, call.kind.kind)
    if wanted.uid is not None and wanted.uid != metadata["uid"]:
        text = f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({metadata['uid']})."
        return api_errors.conflict(
            kind, metadata["name"], f"{text} The object might have been deleted and then recreated"
        )
    version = metadata["resourceVersion"]
    if wanted.resource_version is not None and wanted.resource_version != version:
        text = f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match"
        text = f"{text} the ResourceVersion in record ({version}). The object might have been modified"
        return api_errors.conflict(kind, metadata["name"], text)
    return None


def _mark(call: Call, obj: Object, wanted: options.DeleteOptions) -> tuple[Object, bool] | None:
    """The object as the delete leaves it and whether it goes away now; ``None``: an earlier delete already says so."""
    marked = {**obj, "metadata": dict(obj["metadata"])}
    metadata = marked["metadata"]
    graceful = _grace(call, marked, wanted)
    if graceful is None:
        return None
    finalizers = _set_finalizers(call, metadata, wanted)
    if graceful:
        return marked, not finalizers and metadata["deletionGracePeriodSeconds"] == 0
    if finalizers:
        _mark_as_deleting(call, metadata)
        return marked, False
    return marked, True


def _grace(call: Call, obj: Object, wanted: options.DeleteOptions) -> bool | None:
    """Whether the object is (newly) in a grace period; ``None`` if it already was and nothing changes."""
    metadata = obj["metadata"]
    asked = wanted.grace_period_seconds
    asked = 1 if asked is not None and asked < 0 else asked
    decide = call.strategy.graceful_delete
    if decide is None:
        return False
    if "deletionTimestamp" in metadata:
        current = max(metadata.get("deletionGracePeriodSeconds") or 0, 0)
        if current == 0:
            return False
        if asked is None or asked >= current:
            return None
        _shorten(call, metadata, current, asked)
        return True
    granted = decide(obj, asked)
    if granted is None:
        return False
    metadata["deletionTimestamp"] = timestamps.format_time(call.moment.epoch_s + granted)
    metadata["deletionGracePeriodSeconds"] = granted
    _count_generation(metadata)
    return True


def _shorten(call: Call, metadata: Object, current: int, asked: int) -> None:
    due = timestamps.parse_time(metadata["deletionTimestamp"])
    began = (due if isinstance(due, int) else int(call.moment.epoch_s)) - current
    ends, now = began + asked, int(call.moment.epoch_s)
    if ends < now:
        ends, asked = now, min(asked, 1)
    metadata["deletionTimestamp"] = timestamps.format_time(ends)
    metadata["deletionGracePeriodSeconds"] = asked


def _mark_as_deleting(call: Call, metadata: Object) -> None:
    """Waiting for finalizers only: no grace period is left."""
    if "deletionTimestamp" not in metadata:
        _count_generation(metadata)
        metadata["deletionTimestamp"] = call.now
    elif metadata["deletionTimestamp"] > call.now:
        metadata["deletionTimestamp"] = call.now
    metadata["deletionGracePeriodSeconds"] = 0


def _count_generation(metadata: Object) -> None:
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def _set_finalizers(call: Call, metadata: Object, wanted: options.DeleteOptions) -> list[str]:
    finalizers = finalizers_after(call.kind.resource, metadata.get("finalizers") or [], wanted)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return finalizers
