"""PUT: replaces an object, or one subresource of it; for some kinds it also creates the object."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import track_update
from headgate.apimachinery.strategy import UpdateRules
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import owner_references, writing

Object = dict[str, Any]


def update(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    write_options = options.write_options(call.query, "UpdateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    obj = request_bodies.decode_object(call, call.kind, write_options.field_validation)
    if isinstance(obj, api_errors.StatusError):
        return responses.refused(call, obj)
    metadata = obj["metadata"]
    problem = writing.match_namespace(call.namespace, metadata) or name_mismatch(call, metadata)
    if problem is not None:
        return responses.refused(call, problem)
    owner_references.drop_repeated(call, obj, admitted=False)
    rules = rules_of(call)

    def transform(old: Object | None) -> admission_chain.AdmitSteps:
        """The object of the request with managed fields, admitted; ``old`` is None if the object does not exist."""
        new = {**obj, "metadata": dict(metadata)}
        if old is None:
            writing.wipe_system_fields(new["metadata"])
        return (yield from admit(call, record_managed_fields(call, new, old, rules, write_options.field_manager), old))

    written = yield from writing.update(
        call,
        transform,
        rules,
        dry_run=write_options.dry_run,
        allow_create=call.strategy.allow_create_on_update and not call.info.subresource,
        precondition_uid=metadata.get("uid", ""),
    )
    if isinstance(written, api_errors.StatusError):
        return responses.refused(call, written)
    return responses.written_response(call, 201 if written.created else 200, written.obj, written.item)


def rules_of(call: RequestContext) -> UpdateRules:
    """The update rules of the endpoint: of the object, or of the subresource in the path."""
    subresource = call.info.subresource
    return call.strategy.subresources[subresource] if subresource else call.strategy.update


def name_mismatch(call: RequestContext, metadata: Object) -> api_errors.StatusError | None:
    name, url_name = metadata.get("name", ""), call.info.name
    if not name:
        text = f"the name of the object ({url_name} based on URL) was undeterminable: name must be provided"
        return api_errors.bad_request(text)
    if name != url_name:
        text = f"the name of the object ({name}) does not match the name on the URL ({url_name})"
        return api_errors.bad_request(text)
    return None


def record_managed_fields(
    call: RequestContext,
    new: Object,
    old: Object | None,
    rules: UpdateRules,
    field_manager: str,
    kind: ServedKind | None = None,
) -> Object:
    """``new`` in wire form, with its managed fields. ``kind``: of ``new``, if it is not that of the path (Scale)."""
    kind = kind or call.kind
    wire = stored_objects.wire_form(call.api, kind, new)
    if new["metadata"].get("managedFields") == []:
        # The wire form has no empty lists, but an empty list is a client's request to remove all managed fields.
        wire["metadata"] = {**wire["metadata"], "managedFields": []}
    scheme = call.api.scheme_of(kind)
    tracked = track_update(
        scheme.typed,
        old,
        wire,
        manager=field_manager or call.manager,
        api_version=kind.api_version,
        subresource=call.info.subresource,
        now=call.now,
        reset=rules.reset_fields,
        convert=stored_objects.converter(call.api, kind),
    )
    return scheme.drop_fields_not_stored(tracked)


def admit(call: RequestContext, new: Object, old: Object | None) -> admission_chain.AdmitSteps:
    """Runs mutating admission for an update, or for a create if ``old`` is None."""
    steps = admission_chain.admit_create(call, new) if old is None else admission_chain.admit_update(call, new, old)
    admitted = yield from steps
    if not isinstance(admitted, api_errors.StatusError):
        owner_references.drop_repeated(call, admitted, admitted=True)
    return admitted
