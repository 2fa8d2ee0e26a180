"""The HTTP response of a webhook, read as client-go reads it: a body to decode, or an error text.

The texts are those of client-go, because users search for them.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.codec import codec
from headgate.apiserver.request.messages import WebhookAnswer
from headgate.kube import field_errors

_SHOWN_BYTES: Final = 2048
_MESSAGES: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_NOT_ACCEPTABLE: Final = "the server was unable to respond with a content type that the client supports"


def failure(response: WebhookAnswer) -> str:
    """Why the call failed; empty if there is a body to decode."""
    if response.problem:
        return response.problem
    if 200 <= response.status <= 206:
        if response.body:
            return ""
        kind = response.content_type or "application/json"
        return f"0-length response with status code: {response.status} and content type: {kind}"
    return _status_message(response) or _generic(response)


def _status_message(response: WebhookAnswer) -> str:
    """The message of a Status in the body, which is more specific than the code."""
    parsed = codec.decode_json(response.body)
    value = parsed.value
    if not isinstance(value, dict) or value.get("status") != "Failure":
        return ""
    if (value.get("kind") or "Status") != "Status" or (value.get("apiVersion") or "v1") != "v1":
        return ""
    message = value.get("message")
    return message if isinstance(message, str) else ""


def _generic(response: WebhookAnswer) -> str:
    code = response.status
    is_text = not response.content_type or response.content_type.startswith("text/")
    text = response.body[:_SHOWN_BYTES].decode("utf-8", "replace").strip() if is_text else "unknown"
    if code in _MESSAGES:
        return _MESSAGES[code]
    if code in (403, 415):
        return text
    if code == 406:
        return text if text and text != "unknown" else _NOT_ACCEPTABLE
    if code >= 500:
        return f"an error on the server ({field_errors.quote(text)}) has prevented the request from succeeding"
    if 300 <= code < 400:
        return f"the server responded with the status code {code}, a redirect, which is not followed"
    return f"the server responded with the status code {code} but did not return more information"
