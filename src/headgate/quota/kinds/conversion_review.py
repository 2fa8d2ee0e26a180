"""ConversionReview requests and responses of the conversion webhook.

An invalid request gets a response with a reason; nothing raises. ``runtime/webhooks/`` serves the webhook.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.quota.kinds.conversion import convert
from headgate.quota.kinds.names import API_VERSION, OLDER_API_VERSION

Object = dict[str, Any]

REVIEW_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"


def review_response(body: bytes) -> bytes | str:
    """The ConversionReview with its response, as JSON, or a text that says why the body is not a ConversionReview."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as problem:
        return f"the body is not JSON: {problem}"
    if not isinstance(review, dict) or review.get("kind") != KIND or review.get("apiVersion") != REVIEW_VERSION:
        return f"the body is not a {KIND} of {REVIEW_VERSION}"
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        return "request.uid is required"
    response = {"uid": request["uid"], **_converted(request)}
    return msgspec.json.encode({"apiVersion": REVIEW_VERSION, "kind": KIND, "response": response})


def _converted(request: Object) -> Object:
    desired_version, objects = request.get("desiredAPIVersion"), request.get("objects")
    if desired_version not in (API_VERSION, OLDER_API_VERSION):
        return _refusal(
            f"request.desiredAPIVersion: {desired_version!r} is neither {API_VERSION} nor {OLDER_API_VERSION}"
        )
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        return _refusal("request.objects: must be a list of objects")
    return {"convertedObjects": [convert(each, desired_version) for each in objects], "result": {"status": "Success"}}


def _refusal(text: str) -> Object:
    return {"convertedObjects": [], "result": {"status": "Failure", "message": text}}
