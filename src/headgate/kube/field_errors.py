"""Field errors as values.

Validation anywhere in Headgate returns a list of :class:`FieldError`; nothing raises. The texts are those of
Kubernetes, so that ``kubectl`` users read the message they expect. ``apimachinery/api_errors.py`` turns a list of field
errors into an HTTP response.

Paths are plain strings (``spec.containers[0].name``); join them with ``f"{path}.field"`` and ``f"{path}[{index}]"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

import msgspec


class FieldErrorType(Enum):
    """The value of ``details.causes[].reason``, and the text at the beginning of the message."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")

    @property
    def cause(self) -> str:
        return self.value[0]

    @property
    def text(self) -> str:
        return self.value[1]


_WITHOUT_VALUE: Final = frozenset(
    {FieldErrorType.REQUIRED, FieldErrorType.FORBIDDEN, FieldErrorType.TOO_LONG, FieldErrorType.INTERNAL}
)


class _Omitted:
    """Marks a value that the message does not show."""

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()


class Verbatim(msgspec.Struct, frozen=True):
    """A value as the message shows it, for values that are not JSON (``0x0``)."""

    text: str


_encoder: Final = msgspec.json.Encoder(order="sorted")


def quote(text: str) -> str:
    """``text`` in double quotes, escaped as Go's ``%q`` does it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    out = ['"']
    for char in text:
        escaped = _GO_ESCAPES.get(char)
        if escaped is not None:
            out.append(escaped)
        elif char.isprintable():
            out.append(char)
        elif 0xDC80 <= ord(char) <= 0xDCFF:  # a byte that is not UTF-8, as Python's surrogateescape represents it
            out.append(f"\\x{ord(char) - 0xDC00:02x}")
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) <= 0xFFFF:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    out.append('"')
    return "".join(out)


_GO_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _render(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case Verbatim():
            return value.text
        case _:
            text = _encoder.encode(value).decode()
            # Go's encoder escapes these three for HTML. In JSON they occur only in strings.
            return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class FieldError(msgspec.Struct, frozen=True):
    """One problem with one field. ``value`` is the offending JSON value."""

    kind: FieldErrorType
    path: str
    value: Any = OMITTED
    detail: str = ""
    detail_suffix: str = ""  # the end of the detail; many errors of a request can share one text

    @property
    def body(self) -> str:
        """The message without the path, as in ``details.causes[].message``."""
        text = self.kind.text
        if self.kind not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {_render(self.value)}"
        return f"{text}: {self.detail}{self.detail_suffix}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


FieldErrors = list[FieldError]

MAX_REPORTED_CHARACTERS: Final = 512 * 1024
"""The limit for the errors in a response. Each error may contain a large value, so without a limit the response could
grow with the square of the request. kube-apiserver has no limit."""


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, path, value, detail)


def invalid_without_value(path: str, detail: str) -> FieldError:
    """Without a value: the error is about several values, or the value is too large."""
    return FieldError(FieldErrorType.INVALID, path, OMITTED, detail)


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(FieldErrorType.TYPE_INVALID, path, value, detail)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(FieldErrorType.REQUIRED, path, "", detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(FieldErrorType.DUPLICATE, path, value)


def not_found(path: str, value: Any) -> FieldError:
    return FieldError(FieldErrorType.NOT_FOUND, path, value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(FieldErrorType.FORBIDDEN, path, "", detail)


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    """``allowed`` is shown in the given order; Kubernetes sorts it for most enumerations."""
    return FieldError(FieldErrorType.NOT_SUPPORTED, path, value, supported_values(allowed))


def supported_values(allowed: Sequence[str]) -> str:
    """The detail of :func:`not_supported`, for callers that reject many values with the same list."""
    return "supported values: " + ", ".join(quote(each) for each in allowed) if allowed else ""


def too_long(path: str, max_bytes: int) -> FieldError:
    detail = "may not be more than 1 byte" if max_bytes == 1 else f"may not be more than {max_bytes} bytes"
    return FieldError(FieldErrorType.TOO_LONG, path, OMITTED, detail if max_bytes >= 0 else "value is too long")


def too_many(path: str, actual: int, maximum: int) -> FieldError:
    noun = "item" if maximum == 1 else "items"
    detail = f"must have at most {maximum} {noun}" if maximum >= 0 else "has too many items"
    return FieldError(FieldErrorType.TOO_MANY, path, actual if actual >= 0 else OMITTED, detail)


def internal(path: str, detail: str) -> FieldError:
    return FieldError(FieldErrorType.INTERNAL, path, OMITTED, detail)


class ReportedErrors(msgspec.Struct, frozen=True):
    """The errors that a response contains, each with its body, and the number of omitted ones."""

    bodies: Sequence[tuple[FieldError, str]]
    omitted: int

    def message(self) -> str:
        """``e1``, or ``[e1, e2]``, each distinct message once."""
        messages = list(dict.fromkeys(f"{error.path}: {body}" for error, body in self.bodies))
        if self.omitted:
            messages.append(f"and {self.omitted} more errors")
        return messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"


def report(errors: Sequence[FieldError]) -> ReportedErrors:
    """The first errors, up to :data:`MAX_REPORTED_CHARACTERS`."""
    bodies: list[tuple[FieldError, str]] = []
    remaining = MAX_REPORTED_CHARACTERS
    for error in errors:
        if remaining <= 0:
            break
        bodies.append((error, error.body))
        remaining -= len(error.path) + len(bodies[-1][1])
    return ReportedErrors(bodies, len(errors) - len(bodies))


def aggregate(errors: Iterable[FieldError]) -> str:
    """The text of several errors at once: ``e1``, or ``[e1, e2]``, each distinct message once."""
    return report(list(errors)).message()


def quoted_list(values: Iterable[str]) -> str:
    return "[" + " ".join(quote(value) for value in values) + "]"
