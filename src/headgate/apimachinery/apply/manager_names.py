"""The default name of a field manager, and the names of objects in the messages of apply."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from headgate.kube.schema import GroupVersionKind

MAX_NAME_BYTES: Final = 128


def manager_name(field_manager: str, user_agent: str) -> str:
    """``field_manager``, else the printable characters before the first ``/`` of ``user_agent``, 128 bytes at most."""
    if field_manager:
        return field_manager
    program = user_agent.partition("/")[0]
    return _printable(program) if len(program) <= MAX_NAME_BYTES else _printable.__wrapped__(program)


@lru_cache(maxsize=256)
def _printable(text: str) -> str:
    out, size = [], 0
    for char in text:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > MAX_NAME_BYTES:
            break
        out.append(char)
    return "".join(out)


def stated_kind(obj: dict[str, Any]) -> GroupVersionKind:
    """The kind in the object; empty parts if it is missing or malformed."""
    version, kind = (text if isinstance(text := obj.get(field), str) else "" for field in ("apiVersion", "kind"))
    group, slash, rest = version.partition("/")
    if "/" in rest:
        return GroupVersionKind("", "", "")
    return GroupVersionKind(group, rest, kind) if slash else GroupVersionKind("", version, kind)


def format_kind(gvk: GroupVersionKind) -> str:
    return f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"


def describe(obj: dict[str, Any]) -> str:
    """``default/web; apps/v1, Kind=Deployment``."""
    metadata = obj.get("metadata")
    meta: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    namespace, name = (text if isinstance(text := meta.get(field), str) else "" for field in ("namespace", "name"))
    return f"{namespace}/{name}; {format_kind(stated_kind(obj))}"
