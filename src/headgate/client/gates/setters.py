"""Who set a gate on a pod, and when: as far as the pod's managed fields tell.

A webhook that adds a gate does so in the name of whoever creates the pod. Managed fields are most of a pod's bytes, so
they are read of one pod at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Setter(msgspec.Struct, frozen=True):
    """``time``: a wire timestamp, of the manager's last write to any of its fields."""

    manager: str = ""
    time: str = ""


def find_setter(metadata: Mapping[str, Any], gate: str) -> Setter:
    """The manager whose field the gate is; empty if that cannot be told any more."""
    item = 'k:{"name":' + msgspec.json.encode(gate).decode() + "}"
    try:
        for entry in metadata.get("managedFields") or ():
            fields = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:schedulingGates") or {}
            if item in fields:
                return Setter(str(entry.get("manager") or ""), str(entry.get("time") or ""))
    except (AttributeError, TypeError):
        return Setter()
    return Setter()
