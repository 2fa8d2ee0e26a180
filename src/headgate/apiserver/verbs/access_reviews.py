"""Access reviews and token reviews: requests that look like objects and are never stored.

Roles decide which users may ask about others, as for every request; ``apiserver/authn/`` and ``apiserver/authz/``
provide the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apimachinery.validation import reviews
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.authn.authenticator import bearer_token
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.authz.rbac import AuthorizationDecision
from headgate.apiserver.authz.selectors import selector_problems
from headgate.apiserver.call import Call
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.verbs import updating, writing
from headgate.kube import field_errors

Object = dict[str, Any]
Answer = Callable[[Call, Object], "Object | api_errors.StatusError"]


def _who_am_i(call: Call, review: Object) -> Object:
    return {"metadata": {"creationTimestamp": call.now}, "status": {"userInfo": call.user.info()}}


def _may_i(call: Call, review: Object) -> Object | api_errors.StatusError:
    problems = reviews.validate_self_review(review)
    if problems:
        return _invalid(call, problems)
    return _decided(call, review, call.user)


def _may_they(call: Call, review: Object) -> Object | api_errors.StatusError:
    problems = reviews.validate_review(review)
    if problems:
        return _invalid(call, problems)
    return _decided(call, review, _subject(review))


def _may_they_here(call: Call, review: Object) -> Object | api_errors.StatusError:
    problems = reviews.validate_local_review(review)
    if problems:
        return _invalid(call, problems)
    return _decided(call, review, _subject(review))


def _what_may_i(call: Call, review: Object) -> Object | api_errors.StatusError:
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        return api_errors.bad_request("no namespace on request")
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
    if grants.problem:
        told["evaluationError"] = grants.problem
    return {"metadata": {}, "spec": {}, "status": told}


def _whose_token(call: Call, review: Object) -> Object | api_errors.StatusError:
    spec = review.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or []
    if not token:
        return api_errors.bad_request("token is required for TokenReview in authentication")
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


def create(call: Call) -> Generator[Effect, Any, ServerResponse]:
    wanted = options.write_options(call.query, "CreateOptions")
    if isinstance(wanted, api_errors.StatusError):
        return responses.refused(call, wanted)
    review = request_bodies.decode_object(call, call.kind, wanted.field_validation)
    if isinstance(review, api_errors.StatusError):
        return responses.refused(call, review)
    problem = writing.match_namespace(call.namespace, review["metadata"])
    if problem is not None:
        return responses.refused(call, problem)
    review = updating.track(call, review, None, call.strategy.update, wanted.field_manager)
    admitted = yield from admission_chain.admit_create(call, review)
    if isinstance(admitted, api_errors.StatusError):
        return responses.refused(call, admitted)
    review = admitted
    told = _ANSWERS[call.kind.kind](call, review)
    if isinstance(told, api_errors.StatusError):
        return responses.refused(call, told)
    refusal = yield from admission_chain.validate_create(call, review)
    if refusal is not None:
        return responses.refused(call, refusal)
    return responses.object_answer(call, 201, stored_objects.canonical(call.api, call.kind, {**review, **told}))


def _invalid(call: Call, problems: field_errors.FieldErrors) -> api_errors.StatusError:
    return api_errors.invalid(api_errors.GroupResource(call.kind.group, ""), "", problems)


def _subject(review: Object) -> UserInfo:
    spec = review.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _decided(call: Call, review: Object, user: UserInfo) -> Object:
    spec = review["spec"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None:
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        asked = AuthorizationAttributes(user.name, *(resource.get(field, "") for field in fields))
    else:
        asked = AuthorizationAttributes(user.name, path.get("verb", ""), path=path.get("path", ""))
    return {"status": _told(call.api.policy.decide(user, asked), selector_problems(resource or {}))}


def _told(decision: AuthorizationDecision, problems: str) -> Object:
    told: Object = {"allowed": decision.allowed}
    if decision.reason:
        told["reason"] = decision.reason
    if problems:
        told["evaluationError"] = problems
    return told


def unsupported(call: Call) -> api_errors.StatusError:
    """Component statuses: the one kind that is listed and not kept."""
    text = f"{call.kind.plural} are not supported by the embedded API server: its components run in one process"
    return api_errors.StatusError(501, "NotImplemented", text)
