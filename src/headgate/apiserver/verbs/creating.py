"""POST to a collection: decode, record managed fields, admit, store."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.apimachinery import api_errors
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.registry import request_bodies, responses
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import owner_references, updating, writing


def create(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    write_options = options.write_options(call.query, "CreateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    obj = request_bodies.decode_object(call, call.kind, write_options.field_validation)
    if isinstance(obj, api_errors.StatusError):
        return responses.refused(call, obj)
    writing.wipe_system_fields(obj["metadata"])
    problem = writing.match_namespace(call.namespace, obj["metadata"])
    if problem is not None:
        return responses.refused(call, problem)
    owner_references.drop_repeated(call, obj, admitted=False)
    obj = updating.record_managed_fields(call, obj, None, call.strategy.update, write_options.field_manager)
    admitted = yield from admission_chain.admit_create(call, obj)
    if isinstance(admitted, api_errors.StatusError):
        return responses.refused(call, admitted)
    owner_references.drop_repeated(call, admitted, admitted=True)
    written = yield from writing.create(call, admitted, dry_run=write_options.dry_run)
    if isinstance(written, api_errors.StatusError):
        return responses.refused(call, written)
    return responses.written_response(call, 201, written.obj, written.item)
