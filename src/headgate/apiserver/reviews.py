"""Requests that look like objects but are only questions: who am I, may I.

While every holder of a token may do everything, the questions about oneself have plain answers. Questions about others
need rules to be evaluated; they are refused with words, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from headgate.apiserver import bodies, options, records, updating, views
from headgate.apiserver.call import Call
from headgate.apiserver.messages import Effect, Response
from headgate.kube import status

Object = dict[str, Any]


def _who_am_i(call: Call, review: Object) -> Object:
    return {"userInfo": {"username": call.user.name, "groups": list(call.user.groups)}}


def _may_i(call: Call, review: Object) -> Object:
    return {"allowed": True}


def _what_may_i(call: Call, review: Object) -> Object:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


_ANSWERS: Final[dict[str, Callable[[Call, Object], Object]]] = {
    "SelfSubjectReview": _who_am_i,
    "SelfSubjectAccessReview": _may_i,
    "SelfSubjectRulesReview": _what_may_i,
}


def create(call: Call) -> Generator[Effect, Any, Response]:
    wanted = options.write_options(call.query, "CreateOptions")
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    review = bodies.decode_object(call, call.kind, wanted.field_validation)
    if isinstance(review, status.ApiError):
        return views.refused(call, review)
    answer = _ANSWERS.get(call.kind.kind)
    if answer is None:
        return views.refused(call, unsupported(call))
    yield from ()
    if call.kind.kind == "SelfSubjectReview":
        review["metadata"]["creationTimestamp"] = call.now
    else:
        review = updating.track(call, review, None, call.strategy.update, wanted.field_manager)
    reviewed = {**review, "status": answer(call, review)}
    return views.object_answer(call, 201, records.tidy(call.api, call.kind, reviewed))


def unsupported(call: Call) -> status.ApiError:
    text = f"{call.kind.plural} are not supported by the embedded API server yet: it does not evaluate RBAC rules"
    if call.kind.kind == "ComponentStatus":
        text = "componentstatuses are not supported by the embedded API server: its components run in one process"
    return status.ApiError(501, "NotImplemented", text)
