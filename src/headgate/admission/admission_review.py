"""The AdmissionReview of a webhook: decodes the request, encodes the response with its JSON Patch.

Only fields that Headgate's handlers use are read. An invalid request gets a response with a reason; nothing raises.
``steps.py`` lists the handlers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.admission.assumed_resizes import AllowedResize
from headgate.gate_policies.pod_counts import AdmittedPod
from headgate.kube.lenient_reader import find_object, find_strings, find_text

Object = dict[str, Any]
Operation = dict[str, Any]

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_REASONS: Final = {400: "BadRequest", 403: "Forbidden"}


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One write. ``obj`` is empty for a delete, ``old`` for a create. ``user`` and ``groups`` are those of the
    requesting user. ``now_s``: monotonic time."""

    operation: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user: str = ""
    obj: Object = {}
    old: Object = {}
    uid: str = ""
    dry_run: bool = False
    now_s: float = 0.0
    groups: tuple[str, ...] = ()


class AdmissionResponse(msgspec.Struct, frozen=True):
    """``refusal``: why the write is rejected; empty if it is allowed, with ``patch`` applied. ``assumes``: an allowed
    resize or a new pod behind a gate, which the server adds to the cache so that later requests count it."""

    refusal: str = ""
    code: Literal[400, 403] = 403
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    assumes: AllowedResize | AdmittedPod | None = None


ALLOWED: Final = AdmissionResponse()


def read_review(body: bytes, now_s: float = 0.0) -> AdmissionRequest | str:
    """The request of an AdmissionReview, or an error text that says why it is invalid."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as problem:
        return f"the body is not JSON: {problem}"
    if not isinstance(review, dict) or review.get("kind") != KIND or review.get("apiVersion") != API_VERSION:
        return f"the body is not an {KIND} of {API_VERSION}"
    request = find_object(review, "request")
    if not find_text(request, "uid") or not find_text(request, "operation"):
        return "request.uid and request.operation are required"
    return AdmissionRequest(
        operation=request["operation"],
        resource=find_text(request, "resource", "resource"),
        namespace=find_text(request, "namespace"),
        name=find_text(request, "name"),
        subresource=find_text(request, "subResource"),
        user=find_text(request, "userInfo", "username"),
        obj=find_object(request, "object"),
        old=find_object(request, "oldObject"),
        uid=request["uid"],
        dry_run=request.get("dryRun") is True,
        now_s=now_s,
        groups=tuple(find_strings(find_object(request, "userInfo"), "groups")),
    )


def write_review(uid: str, response: AdmissionResponse) -> bytes:
    """The AdmissionReview with the response, encoded."""
    review_response: Object = {"uid": uid, "allowed": not response.refusal}
    if response.refusal:
        status: Object = {"status": "Failure", "message": response.refusal, "code": response.code}
        review_response["status"] = {**status, "reason": _REASONS[response.code]}
    elif response.patch:
        review_response["patchType"] = "JSONPatch"
        review_response["patch"] = base64.b64encode(msgspec.json.encode(response.patch)).decode()
    if response.warnings:
        review_response["warnings"] = list(response.warnings)
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": review_response})


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations of an object; empty if it has none."""
    return find_object(obj, "metadata", "annotations")


def escape(key: str) -> str:
    """One step of a path in a JSON Patch (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
