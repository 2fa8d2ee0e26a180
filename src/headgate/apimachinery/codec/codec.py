"""Decodes bytes to objects and encodes them, as the API server does; the interface of this package.

:func:`decode_json` or :func:`decode_yaml` reads a request body, :func:`interpret` returns its kind, :func:`convert`
makes an object of that kind, and :func:`wire_form` returns the object as the server sends it. Defaults and validation
are later steps, in ``apimachinery/defaults/`` and ``apimachinery/validation/``; the caller chooses HTTP status codes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.apimachinery.codec.decoder import Decoded, convert
from headgate.apimachinery.codec.encoder import wire_form
from headgate.apimachinery.codec.scalars import json_kind
from headgate.kube.serializer.json_decoder import ParsedBody, decode_json
from headgate.kube.serializer.yaml_decoder import decode_yaml

__all__ = [
    "Decoded",
    "ParsedBody",
    "TypeMeta",
    "convert",
    "decode_json",
    "decode_yaml",
    "interpret",
    "strict_decoding_error",
    "strict_decoding_warnings",
    "wire_form",
]

_KIND_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class TypeMeta(NamedTuple):
    group: str
    version: str
    kind: str


def interpret(parsed: ParsedBody) -> TypeMeta | str:
    """Group, version and kind of the body, empty if they are missing; a ``str`` is an error text."""
    if parsed.error is not None:
        return parsed.error if parsed.is_yaml else f"couldn't get version/kind; json parse error: {parsed.error}"
    found, problem = {"apiversion": "", "kind": ""}, ""
    if parsed.value is not None and not isinstance(parsed.value, dict):
        problem = f"json: cannot unmarshal {json_kind(parsed.value)} into Go value of type {_KIND_STRUCT}"
        return f"couldn't get version/kind; json parse error: {problem}"
    for key, item in (parsed.value or {}).items():
        name = key.lower()  # this step is case-insensitive in Kubernetes too
        if name in found and item is not None:
            if not isinstance(item, str):
                name = "apiVersion" if name == "apiversion" else name
                problem = problem or f"{json_kind(item)} into Go struct field .{name} of type string"
            else:
                found[name] = item
    if problem:
        return f"couldn't get version/kind; json parse error: json: cannot unmarshal {problem}"
    return _split(found["apiversion"], found["kind"])


def _split(api_version: str, kind: str) -> TypeMeta | str:
    if api_version.count("/") > 1:
        return f"unexpected GroupVersion string: {api_version}"
    if api_version == "/":
        return TypeMeta("", "", kind)
    group, _, version = api_version.rpartition("/")
    return TypeMeta(group, version, kind)


def strict_decoding_warnings(parsed: ParsedBody, decoded: Decoded) -> list[str]:
    """One warning per unknown or repeated field."""
    return [*_repeated_in_yaml(parsed), *decoded.strict_errors]


def strict_decoding_error(parsed: ParsedBody, decoded: Decoded) -> str:
    """The text of one error for all unknown and repeated fields; empty if there are none."""
    repeated = _repeated_in_yaml(parsed)
    lines = ["yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in repeated)] if repeated else []
    messages = [*lines, *decoded.strict_errors]
    return "strict decoding error: " + ", ".join(messages) if messages else ""


def _repeated_in_yaml(parsed: ParsedBody) -> tuple[str, ...]:
    """The repeated keys of a YAML body. Those of a JSON body are reported by ``convert``."""
    return parsed.duplicate_errors if parsed.is_yaml else ()
