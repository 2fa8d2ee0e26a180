"""``handle``: processes one request to the API server and returns the response.

``handle`` is a generator without I/O. It authenticates and authorizes the request, finds the kind and the verb, and
runs the module of the verb. ``apiserver/io/api_server.py`` drives it and performs the effects that it yields
(``Commit``, ``WaitRevision``, ``CallWebhooks``). Invalid input never raises an exception here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.structural.defaulting import TooManyDefaults
from headgate.apiserver import access_control
from headgate.apiserver import audit_event as audit
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.discovery import nonresource_paths
from headgate.apiserver.kinds import size_limits
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.rows.row import CREATE
from headgate.apiserver.registry import responses
from headgate.apiserver.request import custom_routes, negotiation, options, request_timeout, routes
from headgate.apiserver.request.messages import Effect, Moment, RecordAuditEvent, ServerRequest, ServerResponse
from headgate.apiserver.request.request_info import RequestInfo
from headgate.apiserver.request.warning_headers import warning_headers
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.state import ServerState
from headgate.apiserver.subresources import binding, eviction, scale, token
from headgate.apiserver.verbs import (
    access_reviews,
    creating,
    deleting,
    deleting_collections,
    patching,
    reading,
    updating,
    writing,
)
from headgate.apiserver.watch import watcher
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.apiserver.webhooks.conversion import (
    ConversionRequired,
    Conversions,
    ConversionWebhookFailed,
    MomentReplay,
)
from headgate.kube import field_errors, names

RequestSteps = Generator[Effect, Any, "ServerResponse | WatchCursor"]
Verb = Callable[[RequestContext], Generator[Effect, Any, ServerResponse]]

_MAX_CONVERSIONS: Final = 32  # how often a request may be run again with more converted objects
MAX_BODY_BYTES: Final = 3 * 1024 * 1024

_ON_RESOURCE: Final[dict[str, Verb]] = {
    "get": reading.get,
    "create": creating.create,
    "update": updating.update,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting_collections.delete_collection,
}
_ON_SUBRESOURCE: Final[dict[tuple[str, str], Verb]] = {
    ("binding", "create"): binding.create,
    ("eviction", "create"): eviction.create,
    ("token", "create"): token.create,
    ("scale", "get"): scale.get,
    ("scale", "update"): scale.update,
    ("scale", "patch"): scale.patch,
}
# The statuses of refusals that may depend on a staged write. They are sent after that write is committed.
_STATE_DEPENDENT: Final = frozenset({403, 404, 409, 422, 429})
# Endpoints that need a kubelet or a proxy; each is refused by name.
_UNSUPPORTED: Final = {
    "log": "containers on simulated nodes write no logs",
    "exec": "containers on simulated nodes run no processes",
    "attach": "containers on simulated nodes run no processes",
    "portforward": "containers on simulated nodes have no network",
    "proxy": "there is no network to proxy into",
}


def handle(api: ServerState, request: ServerRequest, moment: Moment) -> RequestSteps:
    if request.method == "OPTIONS" and request.path == "*":
        return nonresource_paths.SERVER_OPTIONS
    if request.info.problem:
        return nonresource_paths.incomplete_path(request)
    timeout_problem = request_timeout.refusal(request.info, request.query)
    access = (
        access_control.unauthenticated(request, timeout_problem)
        if timeout_problem is not None
        else access_control.authenticate_and_authorize(api, request, moment.epoch_s)
    )
    response = access.refusal or (yield from _dispatch(api, request, moment, access.user))
    if isinstance(response, WatchCursor):
        # The response to HEAD has no body.
        return (
            response
            if request.info.method != "HEAD"
            else ServerResponse(200, b"", response.content_type, response.headers)
        )
    if access.warning:
        warnings = warning_headers([access.warning])
        response = msgspec.structs.replace(response, headers=(*response.headers, *warnings))
    if api.audit_level is None or not audit.is_recorded(request):
        return response
    audit_id = request.header("audit-id") or moment.new_uid()
    yield RecordAuditEvent(
        audit.make_event(api, api.audit_level, request, access, response, audit_id=audit_id, received_s=moment.epoch_s)
    )
    return msgspec.structs.replace(response, headers=(("Audit-Id", audit_id), *response.headers))


def _dispatch(api: ServerState, request: ServerRequest, moment: Moment, user: UserInfo) -> RequestSteps:
    """Responds to an authorized request, for a resource or for another path."""
    if len(request.body) > MAX_BODY_BYTES:
        return responses.refuse(api_errors.body_too_large(MAX_BODY_BYTES))
    info = request.info
    served = info.is_resource_request and info.has_route
    kind = api.kinds.by_resource(info.group, info.version, info.resource) if served else None
    if kind is None:
        return nonresource_paths.respond(api, request)
    response = yield from _resource(api, request, moment, kind, user)
    if info.is_write and isinstance(response, ServerResponse) and response.status in _STATE_DEPENDENT:
        failure = yield from writing.wait_for_pending_writes(api.store)
        return response if failure is None else responses.refuse(failure)
    return response


def _resource(
    api: ServerState, request: ServerRequest, moment: Moment, kind: ServedKind, user: UserInfo
) -> RequestSteps:
    """Responds to a request for ``kind``.

    If a conversion webhook must convert an object first, the verb raises :class:`ConversionRequired`. Then the webhook
    is called, and the verb runs again from its start with the same uids and random numbers (:class:`MomentReplay`).
    """
    info, accept = request.info, request.header("accept")
    if kind.scheme is not None:
        if custom_routes.is_wrong_scope(info, kind):
            return nonresource_paths.NOT_FOUND
        refusal = custom_routes.refusal(info, kind)
    else:
        refusal = routes.refusal(info, kind)
        refusal = refusal or negotiation.check_accept(accept, streams=info.verb in ("list", "watch"))
    if refusal is not None:
        return responses.refuse(refusal)
    query = options.parse_query(request.query)
    pretty = negotiation.wants_pretty((query.get("pretty") or [""])[0], request.header("user-agent"))
    output = negotiation.output(accept, pretty=pretty, tables=_has_table(info, kind))
    if isinstance(output, api_errors.StatusError):
        return responses.refuse(output)
    if kind.scheme is None or kind.scheme.webhook is None:
        return (yield from _run_verb(RequestContext(api, request, moment, info, kind, user, output)))
    conversions, replay = Conversions(kind.scheme.webhook, moment), MomentReplay(moment)
    kind = conversions.bind(kind)
    for _ in range(_MAX_CONVERSIONS):
        call = RequestContext(api, request, replay.restart(), info, kind, user, output)
        try:
            response = yield from _run_verb(call)
        except ConversionRequired as need:
            yield from conversions.fetch(need)
        except ConversionWebhookFailed as problem:
            return responses.refused(call, api_errors.unknown_error(str(problem)))
        else:
            if isinstance(response, WatchCursor):
                response.conversions = conversions
            return response
    return responses.refused(call, api_errors.internal_error("objects change faster than their webhook converts them"))


def _has_table(info: RequestInfo, kind: ServedKind) -> bool:
    """Whether the endpoint has tables: a resource that can only be created is never listed."""
    subresource = kind.subresource(info.subresource) if info.subresource else None
    return (kind.verbs if subresource is None else subresource.verbs) != CREATE


def _run_verb(call: RequestContext) -> RequestSteps:
    """Executes the verb of the request. Too many defaults of a custom schema are an error of the object's size."""
    try:
        return (yield from _select_verb(call))
    except TooManyDefaults:
        return responses.refused(call, size_limits.too_large())


def _select_verb(call: RequestContext) -> RequestSteps:
    info, kind = call.info, call.kind
    if kind.deprecated:
        call.warn(kind.deprecated)
    refusal = _path_problem(call)
    if refusal is not None:
        return responses.refused(call, refusal)
    if info.subresource:
        return (yield from _subresource(call))
    if not kind.is_stored:
        return (yield from _not_stored(call))
    if info.verb == "list":
        return (yield from reading.list_objects(call))
    if info.verb == "watch":
        return (yield from _watch(call))
    return (yield from _ON_RESOURCE[info.verb](call))


def _path_problem(call: RequestContext) -> api_errors.StatusError | None:
    """Refuses names that cannot be part of a key, and an empty namespace (``/namespaces//pods/x``)."""
    name, namespace, verb = call.info.name, call.namespace, call.info.verb
    if verb == "create" and not call.info.subresource:
        name = ""  # custom objects may also be created at the path of an object; the name in the body counts
    if name and (problems := names.name_is_path_segment(name, False)):
        return api_errors.bad_request(f"Name parameter invalid: {field_errors.quote(name)}: {';'.join(problems)}")
    if namespace in (".", ".."):
        return api_errors.unknown_error(f"invalid key: {field_errors.quote(f'/{call.kind.plural}/{namespace}')}")
    if call.kind.is_stored and call.kind.namespaced and not namespace and verb not in ("list", "watch", "create"):
        return api_errors.bad_request("Namespace parameter required.")
    return None


def _watch(call: RequestContext) -> RequestSteps:
    list_options = options.list_options(call.query, force_watch=True)
    if isinstance(list_options, api_errors.StatusError):
        return responses.refused(call, list_options)
    if call.output.media_type != negotiation.JSON:
        return responses.refused(call, negotiation.not_streamable())
    return (yield from watcher.watch(call, list_options))


def _not_stored(call: RequestContext) -> RequestSteps:
    """Kinds that are not stored: bindings, reviews and component statuses."""
    if call.info.verb != "create":
        return responses.refused(call, access_reviews.component_statuses_unsupported(call))
    create = binding.create if call.kind.kind == "Binding" else access_reviews.create
    return (yield from create(call))


def _subresource(call: RequestContext) -> RequestSteps:
    name, verb = call.info.subresource, call.info.verb
    if name in _UNSUPPORTED:
        if call.api.store.read(call.kind.resource, call.namespace, call.info.name) is None:
            return responses.refused(call, api_errors.not_found(call.resource, call.info.name))
        text = f"{call.kind.plural}/{name} is not supported by the embedded API server: {_UNSUPPORTED[name]}"
        return responses.refused(call, api_errors.StatusError(501, "NotImplemented", text))
    return (yield from _ON_SUBRESOURCE.get((name, verb), _ON_RESOURCE[verb])(call))
