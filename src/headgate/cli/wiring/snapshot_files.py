"""Reads the objects of a snapshot from YAML and JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class _Loader(_BASE):  # type: ignore[misc]  # the class of the C library has no types
    """YAML as Kubernetes reads it: times stay texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}


def read_documents(file: Path) -> list[Any] | str:
    """The documents of the file, or why it cannot be read."""
    try:
        text = file.read_bytes()
    except OSError as error:
        return f"{file}: {error.strerror}"
    return parse_documents(text, str(file), is_json=file.suffix in (".json", ".jsonl"))


def parse_documents(text: bytes, name: str, *, is_json: bool = False) -> list[Any] | str:
    """The documents of a text, or why it cannot be parsed. ``name``: of the file, in messages."""
    if is_json or text[:1] in (b"{", b"["):
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            return f"{name}: {error}"
        return found if isinstance(found, list) else [found]
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        return f"{name}{place}: {', '.join(filter(None, (error.context, error.problem)))}"
    except yaml.reader.ReaderError as error:  # its text names no file
        return f"{name}: character {error.character!r} at position {error.position}: {error.reason}"
    except (yaml.YAMLError, ValueError) as error:
        return f"{name}: {error}"
