"""``scale``: the replica count of a workload, as a Scale object.

A read builds a Scale from the workload; a write applies the request to that Scale and copies the number and its managed
fields back to the workload (``apimachinery/apply/scale.py`` maps the managed fields).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import parent_entries, scale_entries
from headgate.apimachinery.apply.scale import REPLICAS, ReplicasPaths
from headgate.apimachinery.strategy import UpdateRules
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.scheme import ScalePaths
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.subresources import replica_counts
from headgate.apiserver.verbs import patching, reading, updating, writing
from headgate.kube import field_errors

Object = dict[str, Any]
Steps = Generator[Effect, Any, ServerResponse]

SCALE: Final = ServedKind(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    singular="scale",
    namespaced=True,
    verbs=(),
    type_name="io.k8s.api.autoscaling.v1.Scale",
    stored_as=("autoscaling", "scales"),
    stored_version="v1",
)
_PLAIN: Final = UpdateRules()
_UNSET_REPLICAS: Final = -(2**31)
_COPIED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(call: RequestContext, workload: Object) -> Object:
    """The Scale of a workload. If the workload has no replicas field, the Scale has ``_UNSET_REPLICAS``, which
    :func:`_problem` refuses in a write."""
    metadata, counts = workload["metadata"], replica_counts.read_counts(workload, _paths(call))
    desired = _UNSET_REPLICAS if counts.desired is None else counts.desired
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {field: metadata[field] for field in _COPIED_METADATA if field in metadata},
        "spec": {"replicas": desired} if desired else {},
        "status": {"replicas": counts.present, **({} if counts.selector is None else {"selector": counts.selector})},
    }


def _paths(call: RequestContext) -> ScalePaths | None:
    return call.api.scheme_of(call.kind).scale


def _replica_paths(call: RequestContext) -> ReplicasPaths:
    """The path of the replicas in each version of the workload, as path elements of managed fields."""
    kinds = call.api.kinds.kinds_stored_as(call.kind.resource)
    if _paths(call) is None:
        return {call.kind.api_version: REPLICAS}
    scale_paths = {kind.api_version: call.api.scheme_of(kind).scale for kind in kinds}
    return {
        version: None if paths is None else tuple(f"f:{step}" for step in paths.spec)
        for version, paths in scale_paths.items()
    }


def get(call: RequestContext) -> Steps:
    item = call.api.store.read(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
    yield from reading.wait_for(call, item.revision)
    workload = stored_objects.load(call.api, call.kind, item)
    counts = replica_counts.read_counts(workload, _paths(call))
    if counts.problem:
        return responses.refused(call, api_errors.unknown_error(counts.problem))
    if counts.desired is None:
        missing = f"the spec replicas field {field_errors.quote(_spec_path(call))} does not exist"
        return responses.refused(call, api_errors.internal_error(missing))
    return _response(call, workload)


def _spec_path(call: RequestContext) -> str:
    paths = _paths(call)
    return "" if paths is None else f".{'.'.join(paths.spec)}"


def _response(call: RequestContext, workload: Object) -> ServerResponse:
    return responses.object_response(call, 200, stored_objects.wire_form(call.api, SCALE, scale_of(call, workload)))


def update(call: RequestContext) -> Steps:
    write_options = options.write_options(call.query, "UpdateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    body = request_bodies.decode_object(call, SCALE, write_options.field_validation)
    if isinstance(body, api_errors.StatusError):
        return responses.refused(call, body)
    problem = writing.match_namespace(call.namespace, body["metadata"]) or updating.name_mismatch(
        call, body["metadata"]
    )
    if problem is not None:
        return responses.refused(call, problem)

    def make(old: Object | None) -> Object | api_errors.StatusError:
        return updating.record_managed_fields(call, body, old, _PLAIN, write_options.field_manager, SCALE)

    return (yield from _write(call, make, write_options.dry_run, body["metadata"].get("uid", "")))


def patch(call: RequestContext) -> Steps:
    patch_options = patching.read_options(call)
    if isinstance(patch_options, api_errors.StatusError):
        return responses.refused(call, patch_options)
    return (yield from _write(call, patching.object_maker(call, SCALE, patch_options, _PLAIN), patch_options.dry_run))


def _write(
    call: RequestContext,
    make: Callable[[Object | None], Object | api_errors.StatusError],
    dry_run: bool,
    precondition_uid: str = "",
) -> Steps:
    api_version, replica_paths = call.kind.api_version, _replica_paths(call)

    def transform(workload: Object | None) -> admission_chain.AdmitSteps:
        """The workload with the replicas and the managed fields of the new Scale."""
        if workload is None:
            return api_errors.not_found(call.resource, call.info.name)
        metadata = workload["metadata"]
        if problem := replica_counts.read_counts(workload, _paths(call)).problem:
            return api_errors.unknown_error(problem)
        old = scale_of(call, workload)
        managed = metadata.get("managedFields") or []
        if entries := scale_entries(managed, replica_paths):
            old["metadata"]["managedFields"] = entries
        new = make(old)
        if not isinstance(new, api_errors.StatusError):
            new = yield from updating.admit(call, new, old)
        if isinstance(new, api_errors.StatusError):
            return new
        refusal = _problem(call, new, metadata)
        if refusal is not None:
            return refusal
        merged = dict(metadata)
        entries = new["metadata"].get("managedFields") or []
        merged["managedFields"] = parent_entries(managed, entries, api_version, replica_paths)
        # An update of a custom object needs a resourceVersion. If the client has sent none, it is that of the workload.
        read_version = "" if _paths(call) is None else metadata.get("resourceVersion", "")
        merged["resourceVersion"] = new["metadata"].get("resourceVersion", "") or read_version
        replicas = (new.get("spec") or {}).get("replicas", 0)
        return replica_counts.with_replicas({**workload, "metadata": merged}, _paths(call), replicas)

    written = yield from writing.update(
        call,
        transform,
        call.strategy.update,
        dry_run=dry_run,
        precondition_uid=precondition_uid,
        admission_view=partial(scale_of, call),
    )
    if isinstance(written, api_errors.StatusError):
        return responses.refused(call, written)
    return _response(call, written.obj)


def _problem(call: RequestContext, scale: Object, metadata: Object) -> api_errors.StatusError | None:
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas == _UNSET_REPLICAS:
        return api_errors.bad_request(f"the spec replicas field {field_errors.quote(_spec_path(call))} cannot be empty")
    if replicas < 0 and _paths(call) is None:
        negative = field_errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        return api_errors.invalid(api_errors.GroupResource("autoscaling", "Scale"), call.info.name, [negative])
    uid = scale["metadata"].get("uid")
    if uid and uid != metadata["uid"]:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        resource = api_errors.GroupResource(call.kind.group, f"{call.kind.plural}/scale")
        return api_errors.conflict(resource, call.info.name, text)
    return None
