"""``pods/binding`` (and the older ``bindings`` collection): sets a pod's node, once, and never while it is gated."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.apimachinery import api_errors
from headgate.apimachinery.pods.binding import bind_pod, check_binding
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.kinds.rows.row import CREATE, builtin_kind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import updating, writing
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

_BINDING = builtin_kind("v1", "Binding", "bindings", "Namespaced", verbs=CREATE)
_PODS = api_errors.GroupResource("", "pods")


def create(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    write_options = options.write_options(call.query, "CreateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    binding = request_bodies.decode_object(call, _BINDING, write_options.field_validation)
    if isinstance(binding, api_errors.StatusError):
        return responses.refused(call, binding)
    if admission_chain.has_webhooks(call, "CREATE"):
        binding = updating.record_managed_fields(
            call, binding, None, call.strategy.update, write_options.field_manager, _BINDING
        )
    problem = yield from _bind(call, binding, write_options.dry_run)
    if problem is not None:
        return responses.refused(call, problem)
    return responses.respond(call, 201, api_errors.success(code=201))


def _bind(
    call: RequestContext, binding: Object, dry_run: bool
) -> Generator[Effect, Any, api_errors.StatusError | None]:
    metadata = binding["metadata"]
    name = call.info.name or metadata.get("name", "")
    problem = writing.match_namespace(call.namespace, metadata)
    if problem is not None:
        return problem
    admitted = yield from admission_chain.admit_create(call, binding)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    binding, metadata = admitted, admitted["metadata"]
    problem = check_binding(binding, name)
    if problem is None and not name:
        problem = api_errors.bad_request("Name parameter required.")
    problem = problem or (yield from admission_chain.validate_create(call, binding))
    if problem is not None:
        return problem
    kind = call.api.kinds.by_gvk(GroupVersionKind("", "v1", "Pod"))
    item = call.api.store.read_applied("pods", call.namespace, name)
    if item is None or kind is None:
        return api_errors.not_found(_PODS, name)
    problem = _preconditions(call, metadata, item.uid, str(item.revision), name)
    if problem is not None:
        return problem
    bound = bind_pod(stored_objects.load(call.api, kind, item), binding, call.strategy_context.features, call.now)
    if isinstance(bound, api_errors.StatusError):
        return bound
    if dry_run:
        return None
    staged = writing.stage(call, kind, stored_objects.wire_form(call.api, kind, bound))
    return (yield from writing.commit(staged.revision))


def _preconditions(
    call: RequestContext, metadata: Object, uid: str, version: str, name: str
) -> api_errors.StatusError | None:
    for label, expected, actual in (
        ("UID", metadata.get("uid"), uid),
        ("ResourceVersion", metadata.get("resourceVersion"), version),
    ):
        if expected and expected != actual:
            text = f"Precondition failed: {label} in precondition: {expected}, {label} in object meta: {actual}"
            key = f"/registry/pods/{call.namespace}/{name}"
            text = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
            return api_errors.conflict(_PODS, name, text)
    return None
