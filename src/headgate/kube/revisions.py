"""Which of two states of an object is the newer one: resource versions count up, as KEP-5504 promises to clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.kube.integers import read_natural


def revision_of(obj: Mapping[str, Any]) -> int:
    """Nought for what has none that can be compared."""
    text = (obj.get("metadata") or {}).get("resourceVersion", "")
    return read_natural(text) or 0
