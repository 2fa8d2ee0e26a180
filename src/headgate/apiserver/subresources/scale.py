"""``scale``: a workload seen as nothing but its number of replicas.

Reading makes a Scale from the workload; writing applies the request to that Scale and carries the number, and who
owns it, back to the workload (``kube/apply/scale.py`` maps the ownership).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from headgate.apiserver import admission, bodies, options, patching, reading, records, updating, views, writing
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.messages import Effect, Response
from headgate.kube import errors, labels, status
from headgate.kube.apply import parent_entries, scale_entries
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
_COPIED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    counts: Object = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    selector = spec.get("selector")
    if selector is not None:
        plain = workload.get("kind") == "ReplicationController"
        counts["selector"] = str(labels.from_set(selector) if plain else labels.from_label_selector(selector))
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {field: metadata[field] for field in _COPIED if field in metadata},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": counts,
    }


def get(call: Call) -> Steps:
    item = call.api.store.read(call.kind.resource, call.namespace, call.route.name)
    if item is None:
        return views.refused(call, status.not_found(call.resource, call.route.name))
    yield from reading.wait_for(call, item.revision)
    return _answer(call, records.load(call.api, call.kind, item))


def _answer(call: Call, workload: Object) -> Response:
    return views.object_answer(call, 200, records.tidy(call.api, SCALE, scale_of(workload)))


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
    api_version = call.kind.api_version

    def transform(workload: Object | None) -> admission.Admitting:
        if workload is None:
            return status.not_found(call.resource, call.route.name)
        metadata = workload["metadata"]
        old = scale_of(workload)
        managed = metadata.get("managedFields") or []
        if entries := scale_entries(managed, api_version):
            old["metadata"]["managedFields"] = entries
        new = make(old)
        if not isinstance(new, status.ApiError):
            new = yield from updating.admit(call, new, old)
        if isinstance(new, status.ApiError):
            return new
        problem = _problem(call, new, metadata)
        if problem is not None:
            return problem
        merged = dict(metadata)
        merged["managedFields"] = parent_entries(managed, new["metadata"].get("managedFields") or [], api_version)
        merged["resourceVersion"] = new["metadata"].get("resourceVersion", "")
        spec = {**workload["spec"], "replicas": (new.get("spec") or {}).get("replicas", 0)}
        return {**workload, "metadata": merged, "spec": spec}

    written = yield from writing.update(
        call, transform, call.strategy.update, dry_run=dry_run, precondition_uid=precondition_uid, seen=scale_of
    )
    if isinstance(written, status.ApiError):
        return views.refused(call, written)
    return _answer(call, written.obj)


def _problem(call: Call, scale: Object, metadata: Object) -> status.ApiError | None:
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        negative = errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        return status.invalid(status.GroupResource("autoscaling", "Scale"), call.route.name, [negative])
    uid = scale["metadata"].get("uid")
    if uid and uid != metadata["uid"]:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        resource = status.GroupResource(call.kind.group, f"{call.kind.plural}/scale")
        return status.conflict(resource, call.route.name, text)
    return None
