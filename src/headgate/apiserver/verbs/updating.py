"""PUT: replaces an object, or one subresource of it; for some kinds it also creates the object."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.apimachinery import api_errors
from headgate.apimachinery.apply import track_update
from headgate.apimachinery.strategy import UpdateRules
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.verbs import owner_references, writing

Object = dict[str, Any]


def update(call: Call) -> Generator[Effect, Any, ServerResponse]:
    wanted = options.write_options(call.query, "UpdateOptions")
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, wanted)
    obj = request_bodies.decode_object(call, call.kind, wanted.field_validation)
    if isinstance(obj, api_errors.StatusError):
        return responses.refused(call, obj)
    metadata = obj["metadata"]
    problem = writing.match_namespace(call.namespace, metadata) or check_name(call, metadata)
    if problem is not None:
        return responses.refused(call, problem)
    owner_references.drop_duplicates(call, obj, admitted=False)
    rules = rules_of(call)

    def transform(old: Object | None) -> admission_chain.AdmitSteps:
        new = {**obj, "metadata": dict(metadata)}
        if old is None:
            writing.wipe_system_fields(new["metadata"])
        return (yield from admit(call, track(call, new, old, rules, wanted.field_manager), old))

    written = yield from writing.update(
        call,
        transform,
        rules,
        dry_run=wanted.dry_run,
        allow_create=call.strategy.allow_create_on_update and not call.info.subresource,
        precondition_uid=metadata.get("uid", ""),
    )
    if isinstance(written, api_errors.StatusError):
        return responses.refused(call, written)
    return responses.written_answer(call, 201 if written.created else 200, written.obj, written.item)


def rules_of(call: Call) -> UpdateRules:
    """How this endpoint (the object, or the subresource in the path) changes an object."""
    subresource = call.info.subresource
    return call.strategy.subresources[subresource] if subresource else call.strategy.update


def check_name(call: Call, metadata: Object) -> api_errors.StatusError | None:
    name, wanted = metadata.get("name", ""), call.info.name
    if not name:
        text = f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        return api_errors.bad_request(text)
    if name != wanted:
        text = f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        return api_errors.bad_request(text)
    return None


def track(
    call: Call, new: Object, old: Object | None, rules: UpdateRules, field_manager: str, kind: ServedKind | None = None
) -> Object:
    """``kind`` is what the body is, when that is not what is stored (a Scale)."""
    kind = kind or call.kind
    printed = stored_objects.canonical(call.api, kind, new)
    if new["metadata"].get("managedFields") == []:
        # Printing drops what is empty, but an empty list is how a client asks to forget all owners.
        printed["metadata"] = {**printed["metadata"], "managedFields": []}
    form = call.api.scheme_of(kind)
    tracked = track_update(
        form.typed,
        old,
        printed,
        manager=field_manager or call.manager,
        api_version=kind.api_version,
        subresource=call.info.subresource,
        now=call.now,
        reset=rules.reset_fields,
        convert=stored_objects.converter(call.api, kind),
    )
    return form.normalize(tracked)


def admit(call: Call, new: Object, old: Object | None) -> admission_chain.AdmitSteps:
    asking = admission_chain.admit_create(call, new) if old is None else admission_chain.admit_update(call, new, old)
    admitted = yield from asking
    if not isinstance(admitted, api_errors.StatusError):
        owner_references.drop_duplicates(call, admitted, admitted=True)
    return admitted
