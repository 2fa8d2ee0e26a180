"""Requests that look like objects but are only questions: who am I, whose token is this, may I, may they, what may I.

Nothing of them is kept. Who may ask about others is decided by the roles, as for every request; the answers come from
``access/``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from headgate.apiserver import admission, bodies, options, records, updating, views, writing
from headgate.apiserver.access.authentication import bearer_token
from headgate.apiserver.access.policy import Decision
from headgate.apiserver.access.selectors import selector_problems
from headgate.apiserver.access.user import User
from headgate.apiserver.call import Call
from headgate.apiserver.messages import Effect, Response
from headgate.kube import errors, status
from headgate.kube.status import Attributes
from headgate.kube.validation import access_review

Object = dict[str, Any]
Answer = Callable[[Call, Object], "Object | status.ApiError"]


def _who_am_i(call: Call, review: Object) -> Object:
    return {"metadata": {"creationTimestamp": call.now}, "status": {"userInfo": call.user.info()}}


def _may_i(call: Call, review: Object) -> Object | status.ApiError:
    problems = access_review.validate_self_review(review)
    if problems:
        return _invalid(call, problems)
    return _decided(call, review, call.user)


def _may_they(call: Call, review: Object) -> Object | status.ApiError:
    problems = access_review.validate_review(review)
    if problems:
        return _invalid(call, problems)
    return _decided(call, review, _subject(review))


def _may_they_here(call: Call, review: Object) -> Object | status.ApiError:
    problems = access_review.validate_local_review(review)
    if problems:
        return _invalid(call, problems)
    return _decided(call, review, _subject(review))


def _what_may_i(call: Call, review: Object) -> Object | status.ApiError:
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        return status.bad_request("no namespace on request")
    grants = call.api.policy.grants(call.user, namespace)
    rules = [rule.wire() for rule, _, _ in grants.rules]
    told: Object = {
        "resourceRules": [rule for rule in rules if "resources" in rule],
        "nonResourceRules": [
            {field: rule[field] for field in ("verbs", "nonResourceURLs")}
            for rule in rules
            if "nonResourceURLs" in rule
        ],
        "incomplete": False,
    }
    if grants.complaint:
        told["evaluationError"] = grants.complaint
    return {"metadata": {}, "spec": {}, "status": told}


def _whose_token(call: Call, review: Object) -> Object | status.ApiError:
    spec = review.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or []
    if not token:
        return status.bad_request("token is required for TokenReview in authentication")
    # What stands after a blank would not be part of a header's token either.
    found = call.api.tokens.find(bearer_token(f"Bearer {token}") or "", call.moment.epoch_s, audiences)
    if isinstance(found, str):
        return {"status": {"user": {}, "error": found}}
    told = {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}
    return {"status": told}


_ANSWERS: Final[dict[str, Answer]] = {
    "SelfSubjectReview": _who_am_i,
    "SelfSubjectAccessReview": _may_i,
    "SubjectAccessReview": _may_they,
    "LocalSubjectAccessReview": _may_they_here,
    "SelfSubjectRulesReview": _what_may_i,
    "TokenReview": _whose_token,
}


def create(call: Call) -> Generator[Effect, Any, Response]:
    wanted = options.write_options(call.query, "CreateOptions")
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    review = bodies.decode_object(call, call.kind, wanted.field_validation)
    if isinstance(review, status.ApiError):
        return views.refused(call, review)
    problem = writing.match_namespace(call.namespace, review["metadata"])
    if problem is not None:
        return views.refused(call, problem)
    review = updating.track(call, review, None, call.strategy.update, wanted.field_manager)
    admitted = yield from admission.admit_create(call, review)
    if isinstance(admitted, status.ApiError):
        return views.refused(call, admitted)
    review = admitted
    told = _ANSWERS[call.kind.kind](call, review)
    if isinstance(told, status.ApiError):
        return views.refused(call, told)
    refusal = yield from admission.validate_create(call, review)
    if refusal is not None:
        return views.refused(call, refusal)
    return views.object_answer(call, 201, records.tidy(call.api, call.kind, {**review, **told}))


def _invalid(call: Call, problems: errors.FieldErrors) -> status.ApiError:
    return status.invalid(status.GroupResource(call.kind.group, ""), "", problems)


def _subject(review: Object) -> User:
    spec = review.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _decided(call: Call, review: Object, user: User) -> Object:
    spec = review["spec"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None:
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        asked = Attributes(user.name, *(resource.get(field, "") for field in fields))
    else:
        asked = Attributes(user.name, path.get("verb", ""), path=path.get("path", ""))
    return {"status": _told(call.api.policy.decide(user, asked), selector_problems(resource or {}))}


def _told(decision: Decision, problems: str) -> Object:
    told: Object = {"allowed": decision.allowed}
    if decision.reason:
        told["reason"] = decision.reason
    if problems:
        told["evaluationError"] = problems
    return told


def unsupported(call: Call) -> status.ApiError:
    """Component statuses: the one kind that is listed and not kept."""
    text = f"{call.kind.plural} are not supported by the embedded API server: its components run in one process"
    return status.ApiError(501, "NotImplemented", text)
