"""POST to a collection: decode, track who owns the fields, admit, store."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headgate.apiserver import admission, bodies, options, owners, updating, views, writing
from headgate.apiserver.call import Call
from headgate.apiserver.messages import Effect, Response
from headgate.kube import status


def create(call: Call) -> Generator[Effect, Any, Response]:
    wanted = options.write_options(call.query, "CreateOptions")
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    obj = bodies.decode_object(call, call.kind, wanted.field_validation)
    if isinstance(obj, status.ApiError):
        return views.refused(call, obj)
    writing.wipe_system_fields(obj["metadata"])
    problem = writing.match_namespace(call.namespace, obj["metadata"])
    if problem is not None:
        return views.refused(call, problem)
    owners.drop_duplicates(call, obj, admitted=False)
    obj = updating.track(call, obj, None, call.strategy.update, wanted.field_manager)
    admitted = yield from admission.admit_create(call, obj)
    if isinstance(admitted, status.ApiError):
        return views.refused(call, admitted)
    owners.drop_duplicates(call, admitted, admitted=True)
    written = yield from writing.create(call, admitted, dry_run=wanted.dry_run)
    if isinstance(written, status.ApiError):
        return views.refused(call, written)
    return views.written_answer(call, 201, written.obj, written.item)
