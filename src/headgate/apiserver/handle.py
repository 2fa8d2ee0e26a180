"""The API server as one function: a request in, effects on the way, an answer out.

``handle`` is a generator without I/O. It authenticates, finds the kind and the verb, and lets the verb's module do
the work; what it yields (``Commit``, ``WaitRevision``, ``CallWebhooks``) its driver
performs. Bad input never raises out of here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from headgate.apiserver import (
    about,
    creating,
    deleting,
    deleting_many,
    negotiation,
    options,
    patching,
    reading,
    reviews,
    routes,
    updating,
    views,
    watching,
    writing,
)
from headgate.apiserver.access import entry
from headgate.apiserver.access.user import User
from headgate.apiserver.api import Api
from headgate.apiserver.audit import event as audit
from headgate.apiserver.call import Call
from headgate.apiserver.custom import paths
from headgate.apiserver.custom.conversion import ConversionFailed, Conversions, Replay, Unconverted
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.kinds.rows.row import CREATE
from headgate.apiserver.messages import Audit, Effect, Moment, Request, Response
from headgate.apiserver.subresources import binding, eviction, scale, token
from headgate.apiserver.warning_headers import warning_headers
from headgate.apiserver.watching import Watch
from headgate.kube import errors, names, status, timestamps

Answering = Generator[Effect, Any, "Response | Watch"]
Verb = Callable[[Call], Generator[Effect, Any, Response]]

_MAX_CONVERSIONS: Final = 32  # a request asks once for what it reads, and once more for what it writes
MAX_BODY_BYTES: Final = 3 * 1024 * 1024

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_OBJECT: Final[dict[str, Verb]] = {
    "get": reading.get,
    "update": updating.update,
    "patch": patching.patch,
    "delete": deleting.delete,
}
_ON_SUBRESOURCE: Final[dict[tuple[str, str], Verb]] = {
    ("binding", "create"): binding.create,
    ("eviction", "create"): eviction.create,
    ("token", "create"): token.create,
    ("scale", "get"): scale.get,
    ("scale", "update"): scale.update,
    ("scale", "patch"): scale.patch,
}
# Refusals because of what another write did: not to be told before readers can see that write.
_TOLD_BY_WRITES: Final = frozenset({403, 404, 409, 422, 429})
# Endpoints that need a kubelet or a proxy; each is refused by name.
_REFUSED: Final = {
    "log": "containers on simulated nodes write no logs",
    "exec": "containers on simulated nodes run no processes",
    "attach": "containers on simulated nodes run no processes",
    "portforward": "containers on simulated nodes have no network",
    "proxy": "there is no network to proxy into",
}


def handle(api: Api, request: Request, moment: Moment) -> Answering:
    caller = entry.enter(api, request, moment.epoch_s)
    answer = caller.refusal or (yield from _answer(api, request, moment, caller.user))
    if isinstance(answer, Watch):
        return answer
    if caller.warning:
        warnings = warning_headers([caller.warning])
        answer = msgspec.structs.replace(answer, headers=(*answer.headers, *warnings))
    if api.audit_level is None or not audit.is_recorded(request):
        return answer
    audit_id = request.header("audit-id") or moment.new_uid()
    yield Audit(
        audit.make_event(api, api.audit_level, request, caller, answer, audit_id=audit_id, received_s=moment.epoch_s)
    )
    return msgspec.structs.replace(answer, headers=(("Audit-Id", audit_id), *answer.headers))


def _answer(api: Api, request: Request, moment: Moment, user: User) -> Answering:
    if len(request.body) > MAX_BODY_BYTES:
        return views.refuse(status.body_too_large(MAX_BODY_BYTES))
    route = routes.parse(unquote(request.path, errors="surrogateescape"))
    kind = None if route is None else api.kinds.by_resource(route.group, route.version, route.resource)
    if route is None or kind is None:
        return about.answer(api, request)
    answer = yield from _resource(api, request, moment, route, kind, user)
    if request.method != "GET" and isinstance(answer, Response) and answer.status in _TOLD_BY_WRITES:
        failure = yield from writing.settle(api.store)
        return answer if failure is None else views.refuse(failure)
    return answer


def _resource(api: Api, request: Request, moment: Moment, route: routes.Route, kind: Kind, user: User) -> Answering:
    verb = _VERBS.get(request.method, "")
    if kind.form is not None:
        if paths.is_elsewhere(route, kind, request.method):
            return about.NOT_FOUND
        refusal = paths.refusal(route, kind, verb)
    else:
        listing = not route.name and request.method == "GET"
        refusal = _misplaced(route, kind)
        refusal = refusal or negotiation.representable(request.header("accept"), streams=listing)
    if refusal is not None:
        return views.refuse(refusal)
    query = options.parse_query(request.query)
    pretty = negotiation.wants_pretty((query.get("pretty") or [""])[0], request.header("user-agent"))
    output = negotiation.output(request.header("accept"), pretty=pretty)
    if isinstance(output, status.ApiError):
        return views.refuse(output)
    if kind.form is None or kind.form.webhook is None:
        return (yield from _act(Call(api, request, moment, route, kind, user, output), verb))
    conversions, replay = Conversions(kind.form.webhook, moment), Replay(moment)
    kind = conversions.bound(kind)
    for _ in range(_MAX_CONVERSIONS):
        call = Call(api, request, replay.again(), route, kind, user, output)
        try:
            answer = yield from _act(call, verb)
        except Unconverted as need:
            yield from conversions.fetch(need)
        except ConversionFailed as problem:
            return views.refused(call, status.unknown_error(str(problem)))
        else:
            if isinstance(answer, Watch):
                answer.conversions = conversions
            return answer
    return views.refused(call, status.internal_error("objects change faster than their webhook converts them"))


def _act(call: Call, verb: str) -> Answering:
    """The verb's work, once the kind and the form of the answer are known."""
    route, kind = call.route, call.kind
    if kind.deprecated:
        call.warn(kind.deprecated)
    refusal = _unfit(call)
    if refusal is not None:
        return views.refused(call, refusal)
    if route.subresource:
        return (yield from _subresource(call, verb))
    if route.name and not route.deprecated_watch and not (verb == "create" and kind.form is not None):
        act = _ON_OBJECT.get(verb)
        if act is None or verb not in kind.verbs:
            return views.refused(call, status.method_not_allowed())
        if not kind.stored:
            return views.refused(call, reviews.unsupported(call))
        return (yield from act(call))
    return (yield from _collection(call, verb))


def _misplaced(route: routes.Route, kind: Kind) -> status.ApiError | None:
    """A path that the kind's scope does not allow."""
    if route.namespace and not kind.namespaced:
        return status.unknown_path()
    if kind.namespaced and not route.namespace and route.name:
        return status.unknown_path()
    if route.name and kind.verbs == CREATE:
        return status.unknown_path()
    if route.subresource and kind.subresource(route.subresource) is None:
        return status.unknown_path()
    if route.rest and route.subresource != "proxy":
        return status.unknown_path()
    return None


def _unfit(call: Call) -> status.ApiError | None:
    """Names that cannot be part of a key, and a time limit that is no duration."""
    timeout = (call.query.get("timeout") or [""])[0]
    if timeout and isinstance(problem := timestamps.parse_duration(timeout), str):
        return status.bad_request(f"invalid timeout specified in the request URL - {problem}")
    name, namespace = call.route.name, call.route.namespace
    if name and (complaints := names.name_is_path_segment(name, False)):
        return status.bad_request(f"Name parameter invalid: {errors.quote(name)}: {';'.join(complaints)}")
    if namespace in (".", ".."):
        return status.unknown_error(f"invalid key: {errors.quote(f'/{call.kind.plural}/{namespace}')}")
    return None


def _collection(call: Call, verb: str) -> Answering:
    kind = call.kind
    if not kind.stored:
        return (yield from _question(call, verb))
    if verb == "get" and "list" in kind.verbs:
        wanted = options.list_options(call.query, force_watch=call.route.deprecated_watch)
        if isinstance(wanted, status.ApiError):
            return views.refused(call, wanted)
        if wanted.watch:
            if call.output.media_type != negotiation.JSON:
                return views.refused(call, negotiation.not_streamable())
            return (yield from watching.watch(call, wanted))
        return (yield from reading.list_objects(call))
    scoped = bool(call.route.namespace) or not kind.namespaced
    if verb == "create" and "create" in kind.verbs and scoped:
        return (yield from creating.create(call))
    if verb == "delete" and "deletecollection" in kind.verbs and scoped:
        return (yield from deleting_many.delete_collection(call))
    return views.refuse(status.method_not_allowed())


def _question(call: Call, verb: str) -> Answering:
    """Kinds of which nothing is kept: bindings and reviews."""
    if verb == "create" and "create" in call.kind.verbs:
        act = binding.create if call.kind.kind == "Binding" else reviews.create
        return (yield from act(call))
    if verb == "get" and "list" in call.kind.verbs:
        return views.refused(call, reviews.unsupported(call))
    return views.refuse(status.method_not_allowed())


def _subresource(call: Call, verb: str) -> Answering:
    name = call.route.subresource
    row = call.kind.subresource(name)
    if row is None:
        return views.refused(call, status.unknown_path())
    if name in _REFUSED:
        text = f"{call.kind.plural}/{name} is not supported by the embedded API server: {_REFUSED[name]}"
        return views.refused(call, status.ApiError(501, "NotImplemented", text))
    if verb not in row.verbs:
        return views.refuse(status.method_not_allowed())
    act = _ON_SUBRESOURCE.get((name, verb))
    if act is not None:
        return (yield from act(call))
    if verb == "get":
        return (yield from reading.get(call))
    return (yield from _ON_OBJECT[verb](call))
