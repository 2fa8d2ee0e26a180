"""From the bytes of a request to an object of the expected kind.

Malformed input, a wrong kind or version, unknown and repeated fields are told apart here, with the words of the real
server. Defaults are applied as part of decoding, as there. Checking what the fields *say* is validation, later.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apiserver import negotiation
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.form import Form
from headgate.apiserver.kinds.kind import Kind
from headgate.kube import codec, errors, status
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

_SUMMARY_BYTES: Final = 30


def decode_object(
    call: Call,
    kind: Kind,
    field_validation: str,
    aliases: frozenset[GroupVersionKind] = frozenset(),
) -> Object | status.ApiError:
    """The body as an object of ``kind`` (or of an alias of the same form), defaulted; warnings go to the call."""
    expected, form = kind.gvk, call.api.form(kind)
    media_type = negotiation.input_type(call.request.header("content-type"))
    if isinstance(media_type, status.ApiError):
        return media_type
    body = call.request.body
    parsed = codec.decode_yaml(body) if media_type == negotiation.YAML else codec.decode_json(body, numbers="spelled")
    named = codec.interpret(parsed)
    if isinstance(named, str):
        return _unrecognized(expected.kind, named, body)
    actual = GroupVersionKind(
        *((named.group, named.version) if named.version else (expected.group, expected.version)),
        named.kind or expected.kind,
    )
    if actual != expected and actual not in aliases:
        return _mismatch(call, actual, expected)
    decoded = form.decode(parsed.value)
    prefix = f"{actual.kind} in version {errors.quote(actual.version)} cannot be handled as a {expected.kind}: "
    if decoded.error is not None:
        return status.bad_request(prefix + decoded.error)
    if field_validation == "Strict" and (problem := codec.strict_error(parsed, decoded)):
        return status.bad_request(prefix + problem)
    if field_validation == "Warn":
        call.warn(*codec.strict_warnings(parsed, decoded))
    complete(form, decoded.obj)
    keep_reset(parsed.value, decoded.obj)
    return decoded.obj


def keep_reset(value: Any, obj: Object) -> None:
    """``managedFields: []`` asks to forget all owners; decoding cannot tell it from silence, so carry it over."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        obj["metadata"]["managedFields"] = []


def complete(form: Form, obj: Object) -> None:
    """Fill in what the client left open."""
    obj.setdefault("metadata", {})
    form.default(obj)


def _unrecognized(kind: str, problem: str, body: bytes) -> status.ApiError:
    text = f"the object provided is unrecognized (must be of type {kind}): {problem} ({_summary(body)})"
    return status.bad_request(text)


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    head, more = body[:_SUMMARY_BYTES], " ..." if len(body) > _SUMMARY_BYTES else ""
    return (head.decode("utf-8", "replace") if body[:1] == b"{" else head.hex()) + more


def _mismatch(call: Call, actual: GroupVersionKind, expected: GroupVersionKind) -> status.ApiError:
    if actual in call.api.schemas.kinds and actual.kind == expected.kind:
        text = f"the API version in the data ({actual.api_version}) does not match the expected API version"
        return status.bad_request(f"{text} ({expected.api_version})")
    prefix = f"{actual.kind} in version {errors.quote(actual.version)} cannot be handled as a {expected.kind}"
    return status.bad_request(f"{prefix}: {_foreign(call, actual, expected)}")


def _foreign(call: Call, actual: GroupVersionKind, expected: GroupVersionKind) -> str:
    """Why an object that says it is ``actual`` is no ``expected``."""
    if actual not in call.api.schemas.kinds:
        return unregistered(actual)
    internal = (expected.group or "core").partition(".")[0]
    return f"converting ({actual.version}.{actual.kind}) to ({internal}.{expected.kind}): unknown conversion"


def unregistered(gvk: GroupVersionKind) -> str:
    version = errors.quote(gvk.api_version)
    return f'no kind {errors.quote(gvk.kind)} is registered for version {version} in scheme "pkg/runtime/scheme.go:111"'


def type_problem(call: Call, expected: GroupVersionKind, value: Any) -> str | None:
    """What is wrong with the type that a patched document names; ``None`` if it is the right one, or none."""
    named = codec.interpret(codec.Parsed(value))
    if isinstance(named, str):
        return named
    actual = GroupVersionKind(
        *((named.group, named.version) if named.version else (expected.group, expected.version)),
        named.kind or expected.kind,
    )
    return None if actual == expected else _foreign(call, actual, expected)
