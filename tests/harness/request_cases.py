"""Requests as data: a `Case` is a name and a list of steps, without expectations; the real server is the oracle.

In paths, headers and bodies `{ns}` is the namespace of the case (created before it starts, if the case mentions it) and
`${saved:/metadata/uid}` is a value of an earlier response that was saved under that name. `server_pair.py` runs cases
on two servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

JSON = "application/json"
PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
NOTHING = "absent"
REFERENCE = re.compile(r"\$\{(?P<name>\w+):(?P<pointer>[^}]*)\}")


@dataclass(frozen=True)
class Edited:
    """A body: what an earlier step saved, changed by a merge patch, as a client that reads, edits and writes back."""

    saved: str
    change: Any = None


@dataclass(frozen=True)
class Step:
    """One request. `eventually` repeats it until it is answered so (a real server's admission reads caches).

    `holding` repeats it until its answer has this value at this place: for what controllers do in their own time.
    """

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    save: str = ""
    eventually: int | None = None
    holding: tuple[str, Any] | None = None
    unordered: bool = False

    def named(self, name: str) -> Step:
        return replace(self, save=name)

    def until(self, status: int) -> Step:
        return replace(self, eventually=status)

    def until_it_holds(self, pointer: str, value: Any) -> Step:
        return replace(self, holding=(pointer, value))

    def in_any_order(self) -> Step:
        """Go's map order decides the order of several errors: compare them sorted."""
        return replace(self, unordered=True)


@dataclass(frozen=True)
class Stream:
    """A watch that is read to its end (give `timeoutSeconds`), or until `count` events came."""

    path: str
    count: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Open:
    """Starts a watch that later `Events` steps read, so that writes can happen in between."""

    name: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Events:
    name: str
    count: int


AnyStep = Step | Stream | Open | Events


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[AnyStep, ...]

    @property
    def wants_namespace(self) -> bool:
        return "{ns}" in repr(self.steps)


def case(name: str, *steps: AnyStep) -> Case:
    return Case(name, steps)


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def get(path: str, accept: str = "", **headers: str) -> Step:
    return Step("GET", path, None, _headers(accept, headers))


def post(path: str, body: Any, accept: str = "", **headers: str) -> Step:
    return Step("POST", path, body, _headers(accept, headers))


def put(path: str, body: Any, accept: str = "", **headers: str) -> Step:
    return Step("PUT", path, body, _headers(accept, headers))


def delete(path: str, body: Any = None, accept: str = "", **headers: str) -> Step:
    return Step("DELETE", path, body, _headers(accept, headers))


def patch(path: str, body: Any, kind: str = "merge", accept: str = "", **headers: str) -> Step:
    return Step("PATCH", path, body, {"Content-Type": PATCH_TYPES.get(kind, kind), **_headers(accept, headers)})


def apply(path: str, body: Any, manager: str = "applier", force: bool = False) -> Step:
    sign = "&" if "?" in path else "?"
    forced = "&force=true" if force else ""
    return patch(f"{path}{sign}fieldManager={manager}{forced}", body, "apply")


def stream(path: str, count: int | None = None, accept: str = "", seconds: int = 1) -> Stream:
    sign = "&" if "?" in path else "?"
    return Stream(f"{path}{sign}watch=true&timeoutSeconds={seconds}", count, _headers(accept, {}))


def open_watch(name: str, path: str, accept: str = "") -> Open:
    sign = "&" if "?" in path else "?"
    return Open(name, f"{path}{sign}watch=true&timeoutSeconds=30", _headers(accept, {}))


def events(name: str, count: int) -> Events:
    return Events(name, count)


def _headers(accept: str, others: Mapping[str, str]) -> dict[str, str]:
    sent = {name.replace("_", "-"): value for name, value in others.items()}
    return {"Accept": accept, **sent} if accept else sent


def encoded(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()


def at(pointer: str, value: Any) -> Any:
    """What stands at a place of an answer; `NOTHING` if nothing does."""
    for part in pointer.strip("/").split("/"):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            return NOTHING
    return value


def filled(text: str, namespace: str, saved: Mapping[str, Any]) -> str:
    def look_up(found: re.Match[str]) -> str:
        return str(at(found["pointer"], saved.get(found["name"])))

    return REFERENCE.sub(look_up, text.replace("{ns}", namespace))


def merged(value: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    base = value if isinstance(value, dict) else {}
    kept = {key: item for key, item in base.items() if key not in change}
    added = {key: merged(base.get(key), item) for key, item in change.items() if item is not None}
    return {**kept, **added}


def cases_of(*groups: Sequence[Case]) -> list[Case]:
    """All cases of a module; a name twice would share a namespace."""
    every = [each for group in groups for each in group]
    names = [each.name for each in every]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two cases have the name {twice[0]!r}")
    return every
