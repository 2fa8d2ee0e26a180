"""Error responses, compared with those of kube-apiserver v1.35.8 to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery import api_errors
from headgate.apimachinery.api_errors import (
    AuthorizationAttributes,
    GroupResource,
    StatusCause,
    StatusDetails,
    StatusError,
)
from headgate.kube import field_errors

PODS = GroupResource("", "pods")
DEPLOYMENTS = GroupResource("apps", "deployments")


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        out["reason"] = reason
    if details is not None:
        out["details"] = details
    return {**out, "code": code}


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (
            api_errors.not_found(PODS, "nope"),
            failure(404, "NotFound", 'pods "nope" not found', {"name": "nope", "kind": "pods"}),
        ),
        (
            api_errors.not_found(DEPLOYMENTS, "d"),
            failure(
                404, "NotFound", 'deployments.apps "d" not found', {"name": "d", "group": "apps", "kind": "deployments"}
            ),
        ),
        (
            api_errors.unknown_path(),
            failure(404, "NotFound", "the server could not find the requested resource", {}),
        ),
        (
            api_errors.already_exists(PODS, "k"),
            failure(409, "AlreadyExists", 'pods "k" already exists', {"name": "k", "kind": "pods"}),
        ),
        (
            api_errors.conflict(PODS, "k"),
            failure(
                409,
                "Conflict",
                'Operation cannot be fulfilled on pods "k": the object has been modified; '
                "please apply your changes to the latest version and try again",
                {"name": "k", "kind": "pods"},
            ),
        ),
        (
            api_errors.conflict(GroupResource("", "pods/binding"), "a", "pod a has non-empty .spec.schedulingGates"),
            failure(
                409,
                "Conflict",
                'Operation cannot be fulfilled on pods/binding "a": pod a has non-empty .spec.schedulingGates',
                {"name": "a", "kind": "pods/binding"},
            ),
        ),
        (api_errors.bad_request("no"), failure(400, "BadRequest", "no")),
        (api_errors.unauthorized(), failure(401, "Unauthorized", "Unauthorized")),
        (
            api_errors.too_large_resource_version(99999999, 279),
            failure(
                504,
                "Timeout",
                "Timeout: Too large resource version: 99999999, current: 279",
                {
                    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1,
                },
            ),
        ),
        (
            api_errors.method_not_allowed(),
            failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}),
        ),
        (
            api_errors.method_not_supported(PODS, "list"),
            failure(405, "MethodNotAllowed", 'list is not supported on resources of kind "pods"', {"kind": "pods"}),
        ),
        (api_errors.unsupported_patch_type(), failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})),
        (
            api_errors.unsupported_media_type(["application/json", "application/yaml"]),
            failure(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json, application/yaml",
            ),
        ),
        (
            api_errors.not_acceptable(["application/json"]),
            failure(406, "NotAcceptable", "only the following media types are accepted: application/json"),
        ),
        (
            api_errors.body_too_large(3145728),
            failure(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        ),
        (
            api_errors.internal_error("boom"),
            failure(500, "InternalError", "Internal error occurred: boom", {"causes": [{"message": "boom"}]}),
        ),
        (api_errors.unknown_error("target.name: Required value"), failure(500, "", "target.name: Required value")),
        (
            api_errors.too_old_resource_version(5, 9),
            failure(410, "Expired", "too old resource version: 5 (9)"),
        ),
        (
            api_errors.timeout("request did not complete within the allotted timeout"),
            failure(504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}),
        ),
        (
            api_errors.server_timeout(PODS, "create", 2),
            failure(
                500,
                "ServerTimeout",
                "The create operation against pods could not be completed at this time, please try again.",
                {"name": "create", "kind": "pods", "retryAfterSeconds": 2},
            ),
        ),
        (
            api_errors.too_many_requests("slow down", 3),
            failure(429, "TooManyRequests", "slow down", {"retryAfterSeconds": 3}),
        ),
        (api_errors.service_unavailable("later"), failure(503, "ServiceUnavailable", "later")),
        (
            api_errors.generate_name_conflict(PODS, "web-abcde"),
            failure(
                409,
                "AlreadyExists",
                'pods "web-abcde" already exists, the server was not able to generate a unique name for the object',
                {"name": "web-abcde", "kind": "pods", "retryAfterSeconds": 1},
            ),
        ),
        (
            api_errors.apply_conflict(
                [StatusCause("FieldManagerConflict", 'conflict with "x"', ".spec")], "Apply failed"
            ),
            failure(
                409,
                "Conflict",
                "Apply failed",
                {"causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "x"', "field": ".spec"}]},
            ),
        ),
    ],
)
def test_each_error_has_its_code_reason_message_and_details(error: StatusError, body: dict[str, Any]) -> None:
    assert error.body() == body


def test_an_invalid_object_lists_every_cause_and_joins_them_in_the_message() -> None:
    found = [field_errors.required("spec.x"), field_errors.invalid("spec.y", "v", "bad")]
    body = api_errors.invalid(GroupResource("apps", "Deployment"), "d", found).body()
    assert body["message"] == (
        'Deployment.apps "d" is invalid: [spec.x: Required value, spec.y: Invalid value: "v": bad]'
    )
    assert body["details"] == {
        "name": "d",
        "group": "apps",
        "kind": "Deployment",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"},
            {"reason": "FieldValueInvalid", "message": 'Invalid value: "v": bad', "field": "spec.y"},
        ],
    }
    assert (body["code"], body["reason"]) == (422, "Invalid")


def test_a_single_error_has_no_brackets_and_no_error_has_no_text() -> None:
    pod = GroupResource("", "Pod")
    assert api_errors.invalid(pod, "p", [field_errors.required("x")]).message == 'Pod "p" is invalid: x: Required value'
    assert api_errors.invalid(pod, "p", []).message == 'Pod "p" is invalid'


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            AuthorizationAttributes("alice", "patch", resource="pods", namespace="t", name="k"),
            'pods "k" is forbidden: User "alice" cannot patch resource "pods" in API group "" in the namespace "t"',
        ),
        (
            AuthorizationAttributes("bob", "list", group="apps", resource="deployments"),
            'deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API group "apps" '
            "at the cluster scope",
        ),
        (
            AuthorizationAttributes("bob", "create", resource="pods", subresource="binding", namespace="t", name="k"),
            'pods "k" is forbidden: User "bob" cannot create resource "pods/binding" in API group "" '
            'in the namespace "t"',
        ),
        (
            AuthorizationAttributes("a<b>&", "get", path="/metrics"),
            'forbidden: User "a&lt;b&gt;&amp;" cannot get path "/metrics"',
        ),
    ],
)
def test_a_forbidden_error_names_user_verb_and_resource(attributes: AuthorizationAttributes, message: str) -> None:
    error = api_errors.access_denied(attributes)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)


def test_the_authorizers_own_reason_comes_last() -> None:
    error = api_errors.access_denied(AuthorizationAttributes("a", "get", path="/x"), "no such role")
    assert error.message.endswith('path "/x": no such role')


def test_the_error_for_an_expired_list_contains_a_new_continue_token() -> None:
    body = api_errors.continue_expired("tok").body()
    assert body["metadata"] == {"continue": "tok"}
    assert (body["code"], body["reason"]) == (410, "Expired")


def test_success_has_details_for_a_deletion_and_a_code_for_a_binding() -> None:
    assert api_errors.success(code=201) == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    }  # fmt: skip
    deleted = api_errors.success(StatusDetails(name="c", kind="configmaps", uid="u"))
    assert deleted["details"] == {"name": "c", "kind": "configmaps", "uid": "u"}
    assert "code" not in deleted
