"""A write that changes nothing must not even change the time of a manager.

Otherwise each repeated apply would be a new revision. Only the finished object can tell, after defaults, admission
and the kind's own preparation: :func:`keep_times` is the last step before storing.
"""

from __future__ import annotations

from typing import Any

from headgate.kube.apply.versions import Object


def keep_times(new: Object, old: Object) -> Object:
    """``new``, with the times of ``old`` if they are all that differs. Both in the form that the server prints."""
    entries, before = _entries(new), _entries(old)
    if not entries or len(entries) != len(before) or entries == before:
        return new
    if any(_timeless(entry) != _timeless(past) for entry, past in zip(entries, before, strict=True)):
        return new
    kept = {**new, "metadata": {**new["metadata"], "managedFields": before}}
    return kept if kept == old else new


def _entries(obj: Object) -> list[dict[str, Any]]:
    return obj["metadata"].get("managedFields") or []


def _timeless(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "time"}
