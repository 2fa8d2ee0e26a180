"""What a manager is called when a request does not say: by the client program's ``User-Agent``."""

from __future__ import annotations

from typing import Final

MAX_NAME_BYTES: Final = 128


def manager_name(field_manager: str, user_agent: str) -> str:
    """``field_manager``, else the printable characters before the first ``/`` of ``user_agent``, 128 bytes at most."""
    if field_manager:
        return field_manager
    out, size = [], 0
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > MAX_NAME_BYTES:
            break
        out.append(char)
    return "".join(out)
