"""Reads the documents of YAML and JSON files that have objects or settings: snapshots, variants, prices, submissions.

A file may have several documents. Scalars are resolved as the API server resolves them. Size, depth, number of values
and growth by aliases are bounded, and a field that is in a map twice is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.cli.options.input_files import read_input
from headgate.kube.serializer.json_decoder import exceeds_max_depth
from headgate.kube.serializer.json_syntax import MAX_DEPTH
from headgate.kube.serializer.yaml_decoder import decode_documents

MAX_VALUES: Final = 10_000_000
"""A dump of 10,000 nodes and 100,000 pods has fewer values in each of its files."""


def read_documents(file: Path) -> list[Any] | str:
    """The documents of the file, or why it cannot be read."""
    text = read_input(file)
    if isinstance(text, str):
        return text
    return parse_documents(text, str(file), is_json=file.suffix in (".json", ".jsonl"))


def parse_documents(text: bytes, name: str, *, is_json: bool = False) -> list[Any] | str:
    """The documents of a text, or why it cannot be parsed. ``name``: of the file, in messages."""
    if is_json or text[:1] in (b"{", b"["):
        found = _parse_json(text)
        if not isinstance(found, str):
            return found
        if is_json:
            return f"{name}: {found}"
    documents = decode_documents(text, MAX_VALUES)
    return f"{name}: {documents}" if isinstance(documents, str) else documents


def _parse_json(text: bytes) -> list[Any] | str:
    try:
        found = msgspec.json.decode(text)
        is_deep = exceeds_max_depth(found)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    except RecursionError:
        is_deep = True
    if is_deep:
        return f"lists and objects are nested more than {MAX_DEPTH} levels deep"
    return found if isinstance(found, list) else [found]
