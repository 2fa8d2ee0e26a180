"""Finds the differences between two normalised responses, as paths with both values.

Only headers that clients read are compared; others (audit ids, flow-control uids, lengths) carry no information.
`allowances.py` decides which differences are allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.normalise import Normaliser
from harness.server import Answer

HEADERS = (
    "content-type",
    "warning",
    "retry-after",
    "location",
    "cache-control",
    "allow",
    "x-content-type-options",
    "etag",
    "vary",
    "accept-patch",
    "www-authenticate",
)
WIDEST_TEXT = 2000


@dataclass(frozen=True)
class Seen:
    """What one server answered to one step, ready to be compared."""

    status: int
    headers: dict[str, list[str]]
    body: Any


@dataclass(frozen=True)
class Difference:
    """`path` starts with "status", "headers" or "body"; absent values are `ABSENT`."""

    case: str
    step: str
    path: tuple[str, ...]
    real: Any
    ours: Any

    @property
    def where(self) -> str:
        return "/".join(self.path)

    def __str__(self) -> str:
        return f"    at {self.where}\n      {{0}}: {_shown(self.real)}\n      {{1}}: {_shown(self.ours)}"


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


def seen(answer: Answer, normaliser: Normaliser, *, headers: tuple[str, ...] = HEADERS) -> Seen:
    read = {
        name: [normaliser.text(value) for key, value in answer.headers if key == name]
        for name in headers
        if answer.header(name) is not None
    }
    return Seen(answer.status, read, normaliser.body(answer.body, answer.header("content-type") or ""))


def differences(case: str, step: str, real: Seen, ours: Seen) -> Iterator[Difference]:
    for path, left, right in _walk((), _as_value(real), _as_value(ours)):
        yield Difference(case, step, path, left, right)


def _as_value(answer: Seen) -> dict[str, Any]:
    return {"status": answer.status, "headers": answer.headers, "body": answer.body}


def _walk(path: tuple[str, ...], left: Any, right: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _walk((*path, key), left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _walk((*path, str(index)), one, other)
    elif type(left) is not type(right) or left != right:
        yield path, left, right


def _shown(value: Any) -> str:
    text = repr(value) if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= WIDEST_TEXT else text[:WIDEST_TEXT] + " …"
