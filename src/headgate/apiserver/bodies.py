"""From the bytes of a request to an object of the expected kind.

Malformed input, a wrong kind or version, unknown and repeated fields are told apart here, with the words of the real
server. Defaults are applied as part of decoding, as there. Checking what the fields *say* is validation, later.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apiserver import negotiation
from headgate.apiserver.call import Call
from headgate.kube import codec, errors, status
from headgate.kube.defaults.registry import DEFAULTERS
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

_SUMMARY_BYTES: Final = 30


def decode_object(call: Call, expected: GroupVersionKind, field_validation: str) -> Object | status.ApiError:
    """The body as an object of ``expected``, defaulted; warnings about unknown fields go to the call."""
    media_type = negotiation.input_type(call.request.header("content-type"))
    if isinstance(media_type, status.ApiError):
        return media_type
    body = call.request.body
    parsed = codec.decode_yaml(body) if media_type == negotiation.YAML else codec.decode_json(body)
    if parsed.error is not None:
        return _unrecognized(expected.kind, parsed.error, body)
    actual = _type_of(parsed.value, expected, body)
    if isinstance(actual, status.ApiError):
        return actual
    decoded = codec.convert(call.api.schemas, call.api.schemas.kinds[expected], parsed.value)
    prefix = f"{actual.kind} in version {errors.quote(actual.version)} cannot be handled as a {expected.kind}: "
    if decoded.error is not None:
        return status.bad_request(prefix + decoded.error)
    strict = [*parsed.duplicates, *decoded.unknown]
    if strict and field_validation == "Strict":
        return status.bad_request(prefix + strict_text(strict))
    if field_validation == "Warn":
        call.warn(*strict)
    obj = decoded.obj
    default_object(expected, obj)
    return obj


def strict_text(problems: list[str]) -> str:
    return "strict decoding error: " + ", ".join(problems)


def default_object(gvk: GroupVersionKind, obj: Object) -> None:
    obj.setdefault("metadata", {})
    defaulter = DEFAULTERS.get((gvk.group, gvk.version, gvk.kind))
    if defaulter is not None:
        defaulter(obj)


def _unrecognized(kind: str, problem: str, body: bytes) -> status.ApiError:
    text = f"the object provided is unrecognized (must be of type {kind}): {problem} ({_summary(body)})"
    return status.bad_request(text)


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    head, more = body[:_SUMMARY_BYTES], " ..." if len(body) > _SUMMARY_BYTES else ""
    return (head.decode("utf-8", "replace") if body[:1] == b"{" else head.hex()) + more


def _type_of(value: Any, expected: GroupVersionKind, body: bytes) -> GroupVersionKind | status.ApiError:
    """The type the body names, the expected one where it names none; an error if that is not what belongs here."""
    if not isinstance(value, dict):
        problem = (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {_json_type(value)} into Go value"
        )
        return _unrecognized(expected.kind, f"{problem} of type struct", body)
    api_version, kind = value.get("apiVersion") or "", value.get("kind") or ""
    for name, found in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(found, str):
            problem = f"couldn't get version/kind; json parse error: json: cannot unmarshal {_json_type(found)} into Go"
            return _unrecognized(expected.kind, f"{problem} struct field .{name} of type string", body)
    if api_version.count("/") > 1:
        problem = f"couldn't get version/kind; unexpected GroupVersion string: {api_version}"
        return _unrecognized(expected.kind, problem, body)
    group, _, version = api_version.rpartition("/")
    actual = GroupVersionKind(
        *((group, version) if api_version else (expected.group, expected.version)), kind or expected.kind
    )
    if actual == expected:
        return actual
    return _mismatch(actual, expected)


def _mismatch(actual: GroupVersionKind, expected: GroupVersionKind) -> status.ApiError:
    if actual.kind == expected.kind:
        text = f"the API version in the data ({actual.api_version}) does not match the expected API version"
        return status.bad_request(f"{text} ({expected.api_version})")
    problem = (
        f"no kind {errors.quote(actual.kind)} is registered for version {errors.quote(actual.api_version)}"
        ' in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )
    prefix = f"{actual.kind} in version {errors.quote(actual.version)} cannot be handled as a {expected.kind}"
    return status.bad_request(f"{prefix}: {problem}")


def _json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
