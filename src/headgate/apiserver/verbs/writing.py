"""Writes objects to the store: create and update, with the strategy of each kind.

``creating.py``, ``updating.py``, ``patching.py`` and the subresources provide a new object, or a function from the old
object to the new one. This module prepares and validates the new object, compares it with the old one, sets its
revision, stages and commits it. Other writes may happen while admission calls webhooks, so the applied head is read
again afterwards; if the old object has changed, the new one is computed again. Nothing is yielded between that read and
staging.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import keep_unchanged_times
from headgate.apimachinery.strategy import UpdateRules
from headgate.apimachinery.strategy.contract import AllocationPool
from headgate.apiserver.admission import admission_chain, rbac_escalation
from headgate.apiserver.kinds import size_limits
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import definition_status, resource_quota, resource_quota_usage, stored_objects
from headgate.apiserver.request import resource_versions
from headgate.apiserver.request.messages import Commit, Effect
from headgate.apiserver.request_context import RequestContext
from headgate.kube import field_errors
from headgate.kube.validation.object_meta import validate_common_meta, validate_common_meta_update
from headgate.store import Item, Revision, Store

Object = dict[str, Any]
Transform = Callable[["Object | None"], admission_chain.AdmitSteps]

_GENERATED_NAME_TRIES: Final = 8
_GENERATED_BASE_MAX: Final = 58


class Written(msgspec.Struct, frozen=True):
    """The result of a write.

    ``deleted``: the write removed the last finalizer of an object that was being deleted, so the object was deleted.
    ``item``: the stored item; None if nothing was stored.
    """

    obj: Object
    created: bool = False
    deleted: bool = False
    item: Item | None = None


Steps = Generator[Effect, Any, "Written | api_errors.StatusError"]


def commit(revision: Revision) -> Generator[Effect, Any, api_errors.StatusError | None]:
    """Waits until a write is on disk. The response is sent after that."""
    failure: api_errors.StatusError | None = yield Commit(revision)
    return failure


def wait_for_pending_writes(store: Store) -> Generator[Effect, Any, api_errors.StatusError | None]:
    """Waits for the staged writes of other requests, because the response depends on them."""
    return None if store.applied == store.committed else (yield from commit(store.applied))


def wipe_system_fields(metadata: Object) -> None:
    for field in ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(field, None)


def match_namespace(expected: str, metadata: Object) -> api_errors.StatusError | None:
    """Sets the namespace of the request in the metadata of an object; the error if it names another namespace."""
    actual = metadata.get("namespace", "")
    if actual == expected:
        return None
    if not expected:
        metadata.pop("namespace", None)
        return None
    if not actual:
        metadata["namespace"] = expected
        return None
    return api_errors.bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def create(call: RequestContext, obj: Object, *, dry_run: bool) -> Steps:
    """Stores a new object that has been decoded, defaulted and admitted, and has managed fields."""
    refusal = rbac_escalation.check_escalation(call, obj, None)
    if refusal is not None:
        return refusal
    metadata = obj["metadata"]
    generate = not metadata.get("name") and bool(metadata.get("generateName"))
    for _ in range(_GENERATED_NAME_TRIES if generate else 1):
        attempt = {**obj, "metadata": dict(metadata)}
        if generate:
            attempt["metadata"]["name"] = metadata["generateName"][:_GENERATED_BASE_MAX] + call.moment.new_suffix()
        written = yield from _create_once(call, attempt, dry_run)
        if not (isinstance(written, api_errors.StatusError) and written.reason == "AlreadyExists" and generate):
            return written
    return api_errors.generate_name_conflict(call.resource, attempt["metadata"]["name"])


def _create_once(call: RequestContext, obj: Object, dry_run: bool) -> Steps:
    store, kind = call.api.store, call.kind
    while True:  # again if another request has taken an allocated value, such as a node port, during admission
        applied = store.applied
        prepared = yield from prepare_create(call, {**obj, "metadata": dict(obj["metadata"])})
        if isinstance(prepared, api_errors.StatusError):
            return prepared
        if dry_run or store.applied == applied or not _lost_allocation(call, prepared, None):
            break
    metadata = prepared["metadata"]
    if not dry_run and resource_versions.is_object_revision(metadata.get("resourceVersion", "")):
        return api_errors.unknown_error("resourceVersion should not be set on objects to be created")
    name = metadata["name"]
    present = store.read_applied(kind.resource, metadata.get("namespace", ""), name)
    if present is not None:
        return _already_exists(call, present)
    refusal = definition_status.refusal(call, prepared) if kind.is_custom_resource else None
    if refusal is not None:
        return refusal
    if dry_run:
        return Written(prepared, created=True)
    stored = _stage_within_limits(call, prepared)
    if isinstance(stored, api_errors.StatusError):
        return stored
    failure = yield from commit(stored.item.revision)
    return failure or Written(with_revision(stored.obj, stored.item), created=True, item=stored.item)


def _already_exists(call: RequestContext, present: Item) -> api_errors.StatusError:
    exists = api_errors.already_exists(call.resource, present.name)
    if "deletionTimestamp" not in stored_objects.decode(present.data)["metadata"]:
        return exists
    return msgspec.structs.replace(exists, message=f"object is being deleted: {exists.message}")


def prepare_create(call: RequestContext, obj: Object) -> admission_chain.AdmitSteps:
    """All steps between mutating admission and the store, for a new object. Returns the object in wire form."""
    metadata, kind, strategy = obj["metadata"], call.kind, call.strategy
    metadata["creationTimestamp"], metadata["uid"] = call.now, call.moment.new_uid()
    problem = match_namespace(call.namespace if kind.namespaced else "", metadata)
    if problem is not None:
        return problem
    refusal = _allocate(call, obj, None)
    if refusal is not None:
        return refusal
    call.warn(*strategy.early_warnings(obj, call.strategy_context))
    strategy.prepare_create(obj, call.strategy_context)
    problems = strategy.validate_create(obj, call.strategy_context) or validate_common_meta(
        metadata, namespaced=kind.namespaced
    )
    if problems:
        return api_errors.invalid(_group_kind(call, obj), metadata.get("name", ""), problems)
    call.warn(*strategy.warnings_create(obj, call.strategy_context))
    refusal = rbac_escalation.check_create_permission(call) or (yield from admission_chain.validate_create(call, obj))
    refusal = refusal or resource_quota.refusal(call, obj, None)
    if refusal is not None:
        return refusal
    # kube-apiserver sets defaults again when it reads the stored object: for fields that prepare_create has added.
    call.api.scheme_of(kind).default(obj)
    return stored_objects.wire_form(call.api, kind, stored_objects.read_back(kind, obj))


def _group_kind(call: RequestContext, obj: Object) -> api_errors.GroupResource:
    """The kind as the error names it; for a custom object it is the one in the object."""
    group_kind = call.group_kind
    return (
        group_kind if call.kind.scheme is None else group_kind._replace(resource=obj.get("kind") or group_kind.resource)
    )


def _allocate(call: RequestContext, new: Object, old: Object | None) -> api_errors.StatusError | None:
    """Allocates unique values for the object: addresses, ports."""
    strategy = call.strategy
    if strategy.allocate is None:
        return None
    new["spec"] = copy.deepcopy(new["spec"])  # if the write is repeated, the values are allocated from the same spec
    allocated = call.api.allocations.allocated(call.kind.resource, strategy.allocations)
    pool = AllocationPool(allocated, call.moment.randrange, "All" in call.query.get("dryRun", ()))
    problems = strategy.allocate(new, old, pool)
    if isinstance(problems, str):  # a text for an error without fields; empty if the allocation succeeded
        return api_errors.unknown_error(problems) if problems else None
    name = call.info.name or new["metadata"].get("name", "")
    return api_errors.invalid(call.group_kind, name, problems) if problems else None


def _lost_allocation(call: RequestContext, new: Object, old: Object | None) -> bool:
    """Whether another write has taken an allocated value of this object during admission."""
    strategy = call.strategy
    if strategy.allocate is None:
        return False
    own = set(strategy.allocations(old)) if old is not None else set()
    allocated = call.api.allocations.allocated(call.kind.resource, strategy.allocations)
    return any(value in allocated for value in strategy.allocations(new) if value not in own)


class _Staged(msgspec.Struct, frozen=True):
    """A staged object; ``obj`` has no revision yet."""

    obj: Object
    item: Item


def _stage_within_limits(call: RequestContext, obj: Object) -> _Staged | api_errors.StatusError:
    """Stages an object of a client, unless it is too large.

    A commit with an object that is too large would fail for all requests, so such an object is refused here. As in
    kube-apiserver, an object that is too large only because of its managed fields is stored without them, except by
    server-side apply, which needs them.
    """
    api, kind = call.api, call.kind
    item = stored_objects.make_item(api, kind, obj, api.store.next_revision())
    refusal = size_limits.refusal(kind, item)
    if refusal is not None and "managedFields" in obj["metadata"] and not call.is_apply:
        metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
        obj = {**obj, "metadata": metadata}
        item = stored_objects.make_item(api, kind, obj, api.store.next_revision())
        refusal = size_limits.refusal(kind, item)
    return refusal or _Staged(obj, _stage(call, kind, item))


def stage(call: RequestContext, kind: ServedKind, obj: Object, *, delete: bool = False) -> Item:
    """Stages a change that the server itself makes to a stored object, such as a deletion timestamp, a condition or
    the removal. Such a change has no size limit."""
    return _stage(
        call, kind, stored_objects.make_item(call.api, kind, obj, call.api.store.next_revision()), delete=delete
    )


def _stage(call: RequestContext, kind: ServedKind, item: Item, *, delete: bool = False) -> Item:
    """Stages ``item`` and the writes that follow from it: ResourceQuota usage, status of CustomResourceDefinitions."""
    change = call.api.store.stage(item, delete=delete)
    resource_quota_usage.update_usage(call.api, change, call.info.subresource, call.now)
    if kind.resource == definition_status.CRD_RESOURCE and not delete:
        call.api.compile_staged_crd(item)
    if kind.resource == definition_status.CRD_RESOURCE or (delete and kind.is_custom_resource):
        definition_status.update_after_write(call, kind, item)
    return item


def with_revision(obj: Object, item: Item) -> Object:
    """The staged object with its revision, for the response."""
    return stored_objects.with_revision(obj, item.revision)


def update(
    call: RequestContext,
    transform: Transform,
    rules: UpdateRules,
    *,
    dry_run: bool,
    allow_create: bool = False,
    precondition_uid: str = "",
    admission_view: Callable[[Object], Object] | None = None,
) -> Steps:
    """Replaces an object by the result of ``transform``, or creates it if it does not exist and that is allowed.

    ``transform`` gets the stored object and returns the new one; it includes mutating admission. If another request
    writes the object meanwhile, all steps are repeated. ``admission_view``: makes the object that validating admission
    gets, if it differs from the stored one (Scale).
    """
    kind, store, name = call.kind, call.api.store, call.info.name
    while True:
        item, applied = store.read_applied(kind.resource, call.namespace, name), store.applied
        if item is None:
            if not allow_create:
                return api_errors.not_found(call.resource, name)
            if precondition_uid:  # the precondition is for an object that does not exist any more
                return _uid_conflict(call, precondition_uid, "")
            written = yield from _create_named(call, transform, dry_run)
            if isinstance(written, api_errors.StatusError) and written.reason == "AlreadyExists":
                continue
            return written
        if precondition_uid and precondition_uid != item.uid:  # it was deleted and created again
            return _uid_conflict(call, precondition_uid, item.uid)
        old = stored_objects.load(call.api, kind, item)
        new = yield from transform(old)
        if isinstance(new, api_errors.StatusError):
            return new
        refusal = rbac_escalation.check_escalation(call, new, old)
        if refusal is not None:
            return refusal
        prepared = yield from prepare_update(call, new, old, rules, admission_view)
        if isinstance(prepared, api_errors.StatusError):
            return prepared
        unchanged = store.applied == applied or store.read_applied(kind.resource, call.namespace, name) is item
        if unchanged and (dry_run or store.applied == applied or not _lost_allocation(call, prepared, old)):
            return (yield from _replace(call, prepared, old, item, dry_run))


def _create_named(call: RequestContext, transform: Transform, dry_run: bool) -> Steps:
    """Creates an object that an update did not find."""
    new = yield from transform(None)
    if isinstance(new, api_errors.StatusError):
        return new
    new["metadata"].pop("resourceVersion", None)  # it was for an object that does not exist
    return (yield from create(call, new, dry_run=dry_run))


def _replace(call: RequestContext, new: Object, old: Object, item: Item, dry_run: bool) -> Steps:
    """Stores a prepared update. An unchanged object is not written; an object whose last finalizer was removed is
    deleted."""
    kind = call.kind
    if _completes_deletion(new, old):
        if dry_run:
            return Written(new, deleted=True)
        deleted = stage(call, kind, old, delete=True)
        failure = yield from commit(deleted.revision)
        return failure or Written(new, deleted=True)
    if new == old:
        # The response shows `item`, which may be staged only, so it waits for the commit of `item`.
        failure = None if dry_run else (yield from commit(item.revision))
        return failure or Written(new)
    if dry_run:
        return Written(new)
    staged = _stage_within_limits(call, new)
    if isinstance(staged, api_errors.StatusError):
        return staged
    failure = yield from commit(staged.item.revision)
    return failure or Written(with_revision(staged.obj, staged.item), item=staged.item)


def _completes_deletion(new: Object, old: Object) -> bool:
    """Whether an update removes the object: it is being deleted, and neither a grace period nor a finalizer is left."""
    spec = new.get("spec")  # it may have any type in a custom object
    if new["metadata"].get("finalizers") or (isinstance(spec, dict) and spec.get("finalizers")):
        return False
    old_metadata = old["metadata"]
    return "deletionTimestamp" in old_metadata and not old_metadata.get("deletionGracePeriodSeconds")


def prepare_update(
    call: RequestContext,
    new: Object,
    old: Object,
    rules: UpdateRules,
    admission_view: Callable[[Object], Object] | None = None,
) -> admission_chain.AdmitSteps:
    """All steps between mutating admission and the store, for an update. Returns the object in wire form."""
    kind, metadata, old_metadata = call.kind, new["metadata"], old["metadata"]
    version = metadata.get("resourceVersion", "")
    if (problem := resource_versions.revision_problem(version)) is not None:
        return api_errors.unknown_error(problem)
    if not version or version == "0":
        if not call.strategy.unconditional_update:
            missing = field_errors.invalid(
                "metadata.resourceVersion", field_errors.Verbatim("0"), "must be specified for an update"
            )
            return api_errors.invalid(call.resource, call.info.name, [missing])
        metadata["resourceVersion"] = old_metadata["resourceVersion"]
    elif version != old_metadata["resourceVersion"]:
        return api_errors.conflict(call.resource, call.info.name)
    mismatch = match_namespace(call.namespace if kind.namespaced else "", metadata)
    if mismatch is not None:
        return mismatch
    refusal = _allocate(call, new, old)
    if refusal is not None:
        return refusal
    _restore("generation", metadata, old_metadata)
    rules.prepare(new, old, call.strategy_context)
    _restore_system_fields(new["metadata"], old_metadata)
    problems = validate_common_meta_update(new["metadata"], old_metadata, namespaced=kind.namespaced)
    problems = problems + rules.validate(new, old, call.strategy_context)
    if problems:
        return api_errors.invalid(_group_kind(call, new), new["metadata"].get("name", ""), problems)
    call.warn(*rules.warnings(new, old, call.strategy_context))
    views = (new, old) if admission_view is None else (admission_view(new), admission_view(old))
    refusal = (yield from admission_chain.validate_update(call, *views)) or resource_quota.refusal(call, new, old)
    if refusal is not None:
        return refusal
    return keep_unchanged_times(stored_objects.wire_form(call.api, kind, stored_objects.read_back(kind, new)), old)


def _restore(field: str, metadata: Object, old_metadata: Object) -> None:
    """Undoes a change of the field."""
    if field in old_metadata:
        metadata[field] = old_metadata[field]
    else:
        metadata.pop(field, None)


def _restore_system_fields(metadata: Object, old_metadata: Object) -> None:
    """Undoes changes of fields that only the server sets. Another uid is kept: validation refuses it."""
    if not metadata.get("uid"):
        metadata["uid"] = old_metadata.get("uid", "")
    for field in ("creationTimestamp", "deletionTimestamp"):
        if field in old_metadata:
            metadata[field] = old_metadata[field]
    if "deletionGracePeriodSeconds" not in metadata:
        _restore("deletionGracePeriodSeconds", metadata, old_metadata)


def _uid_conflict(call: RequestContext, expected: str, actual: str) -> api_errors.StatusError:
    text = f"Precondition failed: UID in precondition: {expected}, UID in object meta: {actual}"
    return api_errors.conflict(call.resource, call.info.name, storage_error(call, text))


def storage_error(call: RequestContext, text: str) -> str:
    """The text of a failed storage precondition, with the etcd key as in kube-apiserver."""
    group, plural = call.kind.stored_as
    prefix = f"{group}/{plural}" if call.kind.is_custom_resource else _STORAGE_PREFIXES.get(call.kind.resource, plural)
    key = "/".join(part for part in ("/registry", prefix, call.namespace, call.info.name) if part)
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"


# Resources whose etcd keys do not contain their plural.
_STORAGE_PREFIXES: Final = {
    "nodes": "minions",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "replicationcontrollers": "controllers",
    "ingresses.networking.k8s.io": "ingress",
}
