"""Access reviews and token reviews: objects that are created and never stored.

RBAC decides which users may create them, as for every request; ``apiserver/authn/`` and ``apiserver/authz/`` provide
the results.
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
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import updating, writing
from headgate.kube import field_errors

Object = dict[str, Any]
ReviewHandler = Callable[[RequestContext, Object], "Object | api_errors.StatusError"]


def _self_subject(call: RequestContext, review: Object) -> Object:
    return {"metadata": {"creationTimestamp": call.now}, "status": {"userInfo": call.user.info()}}


def _self_access(call: RequestContext, review: Object) -> Object | api_errors.StatusError:
    problems = reviews.validate_self_review(review)
    if problems:
        return _invalid(call, problems)
    return _decide(call, review, call.user)


def _subject_access(call: RequestContext, review: Object) -> Object | api_errors.StatusError:
    problems = reviews.validate_review(review)
    if problems:
        return _invalid(call, problems)
    return _decide(call, review, _subject(review))


def _local_subject_access(call: RequestContext, review: Object) -> Object | api_errors.StatusError:
    problems = reviews.validate_local_review(review)
    if problems:
        return _invalid(call, problems)
    return _decide(call, review, _subject(review))


def _self_rules(call: RequestContext, review: Object) -> Object | api_errors.StatusError:
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        return api_errors.bad_request("no namespace on request")
    effective = call.api.authorizer.effective_rules(call.user, namespace)
    rules = [rule.wire() for rule, _, _ in effective.rules]
    status: Object = {
        "resourceRules": [rule for rule in rules if "resources" in rule],
        "nonResourceRules": [
            {field: rule[field] for field in ("verbs", "nonResourceURLs")}
            for rule in rules
            if "nonResourceURLs" in rule
        ],
        "incomplete": False,
    }
    if effective.problem:
        status["evaluationError"] = effective.problem
    return {"metadata": {}, "spec": {}, "status": status}


def _token_review(call: RequestContext, review: Object) -> Object | api_errors.StatusError:
    spec = review.get("spec") or {}
    token, audiences = spec.get("token", ""), spec.get("audiences") or []
    if not token:
        return api_errors.bad_request("token is required for TokenReview in authentication")
    # As in a header, the token ends at a space.
    found = call.api.tokens.find(bearer_token(f"Bearer {token}") or "", call.moment.epoch_s, audiences)
    if isinstance(found, str):  # why the token is not accepted
        return {"status": {"user": {}, "error": found}}
    status = {"authenticated": True, "user": found.user.info(), "audiences": list(found.audiences)}
    return {"status": status}


_HANDLERS: Final[dict[str, ReviewHandler]] = {
    "SelfSubjectReview": _self_subject,
    "SelfSubjectAccessReview": _self_access,
    "SubjectAccessReview": _subject_access,
    "LocalSubjectAccessReview": _local_subject_access,
    "SelfSubjectRulesReview": _self_rules,
    "TokenReview": _token_review,
}


def create(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    """Admits the review, computes its result, and returns it. Nothing is stored."""
    write_options = options.write_options(call.query, "CreateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    review = request_bodies.decode_object(call, call.kind, write_options.field_validation)
    if isinstance(review, api_errors.StatusError):
        return responses.refused(call, review)
    problem = writing.match_namespace(call.namespace, review["metadata"])
    if problem is not None:
        return responses.refused(call, problem)
    review = updating.record_managed_fields(call, review, None, call.strategy.update, write_options.field_manager)
    admitted = yield from admission_chain.admit_create(call, review)
    if isinstance(admitted, api_errors.StatusError):
        return responses.refused(call, admitted)
    review = admitted
    result = _HANDLERS[call.kind.kind](call, review)
    if isinstance(result, api_errors.StatusError):
        return responses.refused(call, result)
    refusal = yield from admission_chain.validate_create(call, review)
    if refusal is not None:
        return responses.refused(call, refusal)
    return responses.object_response(call, 201, stored_objects.wire_form(call.api, call.kind, {**review, **result}))


def _invalid(call: RequestContext, problems: field_errors.FieldErrors) -> api_errors.StatusError:
    return api_errors.invalid(api_errors.GroupResource(call.kind.group, ""), "", problems)


def _subject(review: Object) -> UserInfo:
    spec = review.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _decide(call: RequestContext, review: Object, user: UserInfo) -> Object:
    spec = review["spec"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None:
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        attributes = AuthorizationAttributes(user.name, *(resource.get(field, "") for field in fields))
    else:
        attributes = AuthorizationAttributes(user.name, path.get("verb", ""), path=path.get("path", ""))
    return {"status": _status(call.api.authorizer.decide(user, attributes), selector_problems(resource or {}))}


def _status(decision: AuthorizationDecision, problems: str) -> Object:
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if problems:
        status["evaluationError"] = problems
    return status


def component_statuses_unsupported(call: RequestContext) -> api_errors.StatusError:
    """The error for component statuses, the only kind that can be listed but is not stored."""
    text = f"{call.kind.plural} are not supported by the embedded API server: its components run in one process"
    return api_errors.StatusError(501, "NotImplemented", text)
