"""The text of a scheduler configuration, read: YAML or JSON, then ``scheduling/configuration/``."""

from __future__ import annotations

from headgate.kube.errors import ErrorKind, FieldError, FieldErrors, forbidden
from headgate.kube.yaml_text import decode_yaml
from headgate.scheduling.configuration.parsing import parse_configuration
from headgate.scheduling.configuration.registry import Registry
from headgate.scheduling.configuration.values import Configuration


def read_configuration(text: bytes, registry: Registry) -> Configuration | FieldErrors:
    """A field that is written twice is an error, too: one of the two would be ignored."""
    parsed = decode_yaml(text)
    if parsed.error is not None:
        return [FieldError(ErrorKind.INVALID, "", detail=f"this is neither YAML nor JSON: {parsed.error}")]
    configuration = parse_configuration(parsed.value, registry)
    twice = [_written_twice(each) for each in parsed.duplicates]
    if not twice:
        return configuration
    return twice if isinstance(configuration, Configuration) else [*twice, *configuration]


def _written_twice(sentence: str) -> FieldError:
    """JSON is answered with the field (``duplicate field "a.b"``), YAML with the line (``line 3: key "b" …``)."""
    if sentence.startswith("line "):
        line, _, detail = sentence.partition(": ")
        return forbidden(line, detail)
    return forbidden(sentence.removeprefix("duplicate field ").strip('"'), "duplicate field")
