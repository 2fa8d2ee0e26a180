"""From the bytes of a request to an object of the expected kind.

Malformed input, a wrong kind or version, and unknown or repeated fields are reported here, with the error texts of
kube-apiserver. Defaults are applied as part of decoding, as there. Validation is a later step.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors, protobuf
from headgate.apimachinery.codec import codec
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.scheme import KindScheme
from headgate.apiserver.request import negotiation
from headgate.apiserver.request_context import RequestContext
from headgate.kube import field_errors
from headgate.kube.schema import GroupVersionKind
from headgate.kube.serializer.json_decoder import TOO_MANY_JSON_VALUES, Numbers

Object = dict[str, Any]

_SUMMARY_BYTES: Final = 30


class RequestBody(msgspec.Struct, frozen=True):
    """The body of a request: its type and its value.

    A JSON or YAML body is in ``parsed``. A protobuf body is in ``message``, still encoded: it can only be decoded with
    the schema of its type (:func:`parsed_body`).
    """

    type_meta: codec.TypeMeta
    parsed: codec.ParsedBody = codec.ParsedBody()
    message: bytes | None = None

    def gvk(self, expected: GroupVersionKind) -> GroupVersionKind:
        """The type; parts that the body does not name are as expected."""
        group, version, kind = self.type_meta
        return GroupVersionKind(*((group, version) if version else expected[:2]), kind or expected.kind)


def read_body(call: RequestContext, numbers: Numbers = "literal") -> RequestBody | str | api_errors.StatusError:
    """The body with its type; a ``str`` is the problem of a malformed body, which the caller makes an error of."""
    media_type = negotiation.input_type(call.request.header("content-type"))
    if isinstance(media_type, api_errors.StatusError):
        return media_type
    body = call.request.body
    if media_type == negotiation.PROTOBUF:
        envelope = protobuf.open_envelope(body)
        return envelope if isinstance(envelope, str) else RequestBody(envelope.type_meta, message=envelope.raw)
    parsed = codec.decode_yaml(body) if media_type == negotiation.YAML else codec.decode_json(body, numbers=numbers)
    if parsed.error == TOO_MANY_JSON_VALUES:
        return api_errors.entity_too_large(parsed.error)
    type_meta = codec.interpret(parsed)
    return type_meta if isinstance(type_meta, str) else RequestBody(type_meta, parsed)


def parsed_body(call: RequestContext, body: RequestBody, type_name: str) -> codec.ParsedBody | str:
    """The value of a body of the type ``type_name``; a ``str`` is the problem of a malformed protobuf message."""
    if body.message is None:
        return body.parsed
    value = call.api.messages.decode(type_name, body.message)
    return value if isinstance(value, str) else codec.ParsedBody(value)


def decode_object(
    call: RequestContext,
    kind: ServedKind,
    field_validation: str,
    aliases: frozenset[GroupVersionKind] = frozenset(),
) -> Object | api_errors.StatusError:
    """The body as an object of ``kind``, with defaults. Its warnings are added to the response.

    ``aliases``: other types with the same schema that are accepted, such as an old version.
    """
    expected, scheme = kind.gvk, call.api.scheme_of(kind)
    body = read_body(call, "plain" if kind.is_custom_resource else "literal")
    if isinstance(body, api_errors.StatusError):
        return body
    if isinstance(body, str):
        return _unrecognized(expected.kind, body, call.request.body)
    if kind.is_custom_resource and body.message is not None:
        return negotiation.no_protobuf()
    if kind.is_custom_resource and not body.type_meta.kind:
        missing = f"Object 'Kind' is missing in '{call.request.body.decode('utf-8', 'replace')}'"
        return _unrecognized(expected.kind, missing, call.request.body)
    actual = GroupVersionKind(*body.type_meta) if kind.is_custom_resource else body.gvk(expected)
    prefix = f"{actual.kind} in version {field_errors.quote(actual.version)} cannot be handled as a {expected.kind}: "
    type_name = call.api.schemas.kinds[actual] if _is_registered(call, actual) else ""
    parsed = parsed_body(call, body, type_name) if type_name else body.parsed
    if isinstance(parsed, str):
        return api_errors.bad_request(prefix + parsed)
    if actual != expected and actual not in aliases and not kind.is_custom_resource:
        return _mismatch(call, actual, expected)
    decoded = scheme.decode(parsed.value)
    if kind.is_custom_resource and not parsed.is_yaml:
        decoded = msgspec.structs.replace(decoded, strict_errors=[*parsed.duplicate_errors, *decoded.strict_errors])
    if decoded.error is not None:
        return api_errors.bad_request(prefix + decoded.error)
    if field_validation == "Strict" and (problem := codec.strict_decoding_error(parsed, decoded)):
        return api_errors.bad_request(prefix + problem)
    if field_validation == "Warn":
        call.warn(*codec.strict_decoding_warnings(parsed, decoded))
    if actual[:2] != expected[:2] and kind.is_custom_resource:
        return _other_version(actual, expected)
    set_defaults(scheme, decoded.obj)
    keep_empty_managed_fields(parsed.value, decoded.obj)
    return decoded.obj


def keep_empty_managed_fields(value: Any, obj: Object) -> None:
    """Copies ``managedFields: []``, a request to remove all managed fields; decoding drops the empty list."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        obj["metadata"]["managedFields"] = []


def set_defaults(scheme: KindScheme, obj: Object) -> None:
    """Sets the defaults of the kind."""
    obj.setdefault("metadata", {})
    scheme.default(obj)


def _unrecognized(kind: str, problem: str, body: bytes) -> api_errors.StatusError:
    text = f"the object provided is unrecognized (must be of type {kind}): {problem} ({_summary(body)})"
    return api_errors.bad_request(text)


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    head, more = body[:_SUMMARY_BYTES], " ..." if len(body) > _SUMMARY_BYTES else ""
    return (head.decode("utf-8", "replace") if body[:1] == b"{" else head.hex()) + more


def _other_version(actual: GroupVersionKind, expected: GroupVersionKind) -> api_errors.StatusError:
    text = f"the API version in the data ({actual.api_version}) does not match the expected API version"
    return api_errors.bad_request(f"{text} ({expected.api_version})")


def _mismatch(call: RequestContext, actual: GroupVersionKind, expected: GroupVersionKind) -> api_errors.StatusError:
    if actual in call.api.schemas.kinds and actual.kind == expected.kind:
        return _other_version(actual, expected)
    prefix = f"{actual.kind} in version {field_errors.quote(actual.version)} cannot be handled as a {expected.kind}"
    return api_errors.bad_request(f"{prefix}: {_type_mismatch(call, actual, expected)}")


def _type_mismatch(call: RequestContext, actual: GroupVersionKind, expected: GroupVersionKind) -> str:
    """The error for an object of type ``actual`` instead of ``expected``."""
    if not _is_registered(call, actual):
        return unregistered(actual)
    internal = (expected.group or "core").partition(".")[0]
    return f"converting ({actual.version}.{actual.kind}) to ({internal}.{expected.kind}): unknown conversion"


def _is_registered(call: RequestContext, gvk: GroupVersionKind) -> bool:
    """Whether the type is accepted in requests. Those of ``meta.k8s.io``, such as Table, are only in responses."""
    return gvk in call.api.schemas.kinds and gvk.group != "meta.k8s.io"


def unregistered(gvk: GroupVersionKind) -> str:
    version = field_errors.quote(gvk.api_version)
    kind = field_errors.quote(gvk.kind)
    return f'no kind {kind} is registered for version {version} in scheme "pkg/runtime/scheme.go:111"'


def type_problem(call: RequestContext, expected: GroupVersionKind, value: Any) -> str | None:
    """The problem if the patched object ``value`` has another ``kind`` or ``apiVersion`` than expected.

    ``None`` if they are as expected or absent.
    """
    type_meta = codec.interpret(codec.ParsedBody(value))
    if isinstance(type_meta, str):
        return type_meta
    actual = RequestBody(type_meta).gvk(expected)
    return None if actual == expected else _type_mismatch(call, actual, expected)
