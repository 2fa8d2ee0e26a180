"""``scale``: a workload seen as nothing but its number of replicas.

Reading makes a Scale from the workload; writing applies the request to that Scale and carries the number, and who
owns it, back to the workload (``kube/apply/scale.py`` maps the ownership).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from headgate.apiserver import admission, bodies, options, patching, reading, records, updating, views, writing
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.form import ScalePaths
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.messages import Effect, Response
from headgate.apiserver.subresources import counts
from headgate.kube import errors, status
from headgate.kube.apply import parent_entries, scale_entries
from headgate.kube.apply.scale import REPLICAS, Places
from headgate.kube.strategy import UpdateRules

Object = dict[str, Any]
Steps = Generator[Effect, Any, Response]

SCALE: Final = Kind(
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
_UNSAID: Final = -(2**31)
_COPIED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(call: Call, workload: Object) -> Object:
    """Of a workload that does not say how many replicas it wants the Scale says the impossible."""
    metadata, found = workload["metadata"], counts.read(workload, _paths(call))
    wanted = _UNSAID if found.wanted is None else found.wanted
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {field: metadata[field] for field in _COPIED if field in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found.present, **({} if found.selector is None else {"selector": found.selector})},
    }


def _paths(call: Call) -> ScalePaths | None:
    return call.api.form(call.kind).scale


def _places(call: Call) -> Places:
    """Where each version of the workload counts its replicas."""
    views = call.api.kinds.by_storage(call.kind.resource)
    if _paths(call) is None:
        return {call.kind.api_version: REPLICAS}
    forms = {view.api_version: call.api.form(view).scale for view in views}
    return {
        version: None if paths is None else tuple(f"f:{step}" for step in paths.spec)
        for version, paths in forms.items()
    }


def get(call: Call) -> Steps:
    item = call.api.store.read(call.kind.resource, call.namespace, call.info.name)
    if item is None:
        return views.refused(call, status.not_found(call.resource, call.info.name))
    yield from reading.wait_for(call, item.revision)
    workload = records.load(call.api, call.kind, item)
    found = counts.read(workload, _paths(call))
    if found.problem:
        return views.refused(call, status.unknown_error(found.problem))
    if found.wanted is None:
        missing = f"the spec replicas field {errors.quote(_spec_path(call))} does not exist"
        return views.refused(call, status.internal_error(missing))
    return _answer(call, workload)


def _spec_path(call: Call) -> str:
    paths = _paths(call)
    return "" if paths is None else f".{'.'.join(paths.spec)}"


def _answer(call: Call, workload: Object) -> Response:
    return views.object_answer(call, 200, records.tidy(call.api, SCALE, scale_of(call, workload)))


def update(call: Call) -> Steps:
    wanted = options.write_options(call.query, "UpdateOptions")
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    body = bodies.decode_object(call, SCALE, wanted.field_validation)
    if isinstance(body, status.ApiError):
        return views.refused(call, body)
    problem = writing.match_namespace(call.namespace, body["metadata"]) or updating.check_name(call, body["metadata"])
    if problem is not None:
        return views.refused(call, problem)

    def make(old: Object | None) -> Object | status.ApiError:
        return updating.track(call, body, old, _PLAIN, wanted.field_manager, SCALE)

    return (yield from _write(call, make, wanted.dry_run, body["metadata"].get("uid", "")))


def patch(call: Call) -> Steps:
    wanted = patching.read_options(call)
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    return (yield from _write(call, patching.maker(call, SCALE, wanted, _PLAIN), wanted.dry_run))


def _write(
    call: Call, make: Callable[[Object | None], Object | status.ApiError], dry_run: bool, precondition_uid: str = ""
) -> Steps:
    api_version, places = call.kind.api_version, _places(call)

    def transform(workload: Object | None) -> admission.Admitting:
        if workload is None:
            return status.not_found(call.resource, call.info.name)
        metadata = workload["metadata"]
        if problem := counts.read(workload, _paths(call)).problem:
            return status.unknown_error(problem)
        old = scale_of(call, workload)
        managed = metadata.get("managedFields") or []
        if entries := scale_entries(managed, places):
            old["metadata"]["managedFields"] = entries
        new = make(old)
        if not isinstance(new, status.ApiError):
            new = yield from updating.admit(call, new, old)
        if isinstance(new, status.ApiError):
            return new
        refusal = _problem(call, new, metadata)
        if refusal is not None:
            return refusal
        merged = dict(metadata)
        entries = new["metadata"].get("managedFields") or []
        merged["managedFields"] = parent_entries(managed, entries, api_version, places)
        # Without a precondition of the client a custom object is updated from the state that was read.
        unconditional = "" if _paths(call) is None else metadata.get("resourceVersion", "")
        merged["resourceVersion"] = new["metadata"].get("resourceVersion", "") or unconditional
        replicas = (new.get("spec") or {}).get("replicas", 0)
        return counts.put({**workload, "metadata": merged}, _paths(call), replicas)

    written = yield from writing.update(
        call,
        transform,
        call.strategy.update,
        dry_run=dry_run,
        precondition_uid=precondition_uid,
        seen=partial(scale_of, call),
    )
    if isinstance(written, status.ApiError):
        return views.refused(call, written)
    return _answer(call, written.obj)


def _problem(call: Call, scale: Object, metadata: Object) -> status.ApiError | None:
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas == _UNSAID:
        return status.bad_request(f"the spec replicas field {errors.quote(_spec_path(call))} cannot be empty")
    if replicas < 0 and _paths(call) is None:
        negative = errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        return status.invalid(status.GroupResource("autoscaling", "Scale"), call.info.name, [negative])
    uid = scale["metadata"].get("uid")
    if uid and uid != metadata["uid"]:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        resource = status.GroupResource(call.kind.group, f"{call.kind.plural}/scale")
        return status.conflict(resource, call.info.name, text)
    return None
