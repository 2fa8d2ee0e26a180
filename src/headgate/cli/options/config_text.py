"""The text of a YAML or JSON file that a user writes for a command: one document without repeated fields.

An API server reads the first document and the last of repeated fields. Here both are errors with their lines, because
a part of the file would be ignored. Every command reads such files with :func:`decode_text` and :func:`text_problems`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.kube.field_errors import FieldError, FieldErrorType, forbidden
from headgate.kube.serializer.json_decoder import ParsedBody
from headgate.kube.serializer.yaml_decoder import decode_yaml, second_document_line

_LINE_PREFIX: Final = "line "


class ConfigProblem(msgspec.Struct, frozen=True):
    """An error, and its line if that is known."""

    error: FieldError
    line: int | None = None

    @property
    def text(self) -> str:
        """The error without its place in the file."""
        return str(self.error) if self.error.path else str(self.error).removeprefix(": ")

    def at(self, file: object) -> str:
        return f"{file}: {self.text}" if self.line is None else f"{file}:{self.line}: {self.text}"


def decode_text(text: bytes) -> ParsedBody:
    """A field of a map beside a merge key (``<<``) overrides the merged one, as YAML defines it."""
    return decode_yaml(text, keys_override_merged=True)


def text_problems(text: bytes, parsed: ParsedBody) -> list[ConfigProblem]:
    """Why a part of the text would not be used: it cannot be parsed, it has a second document, or a field is in it
    twice. ``parsed``: the decoded text."""
    if parsed.error is not None:
        return [ConfigProblem(parse_error(parsed.error))]
    problems = list(map(_repeated_field, parsed.duplicate_errors))
    if line := second_document_line(text):
        detail = "a second YAML document begins here, and only one is read: put it into a file of its own"
        problems.append(ConfigProblem(forbidden("", detail), line))
    return problems


def parse_error(error: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, "", detail=f"this is neither YAML nor JSON: {error}")


def _repeated_field(message: str) -> ConfigProblem:
    """The message names the field for JSON (``duplicate field "a.b"``), and the line for YAML (``line 3: key "b"
    …``)."""
    if message.startswith(_LINE_PREFIX):
        line, _, detail = message.removeprefix(_LINE_PREFIX).partition(": ")
        return ConfigProblem(forbidden("", f"{detail}: remove one of the two"), int(line))
    return ConfigProblem(forbidden(message.removeprefix("duplicate field ").strip('"'), "duplicate field"))
