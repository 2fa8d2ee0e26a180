"""Starts whose outcome is unknown: a request that was sent may be performed later.

A start names the resourceVersion of the object. It cannot be performed any more when the object has a later version, or
when the API server has ended all requests of that time. Until then the quota of the object is not released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.controllers.framework.mutation_cache import ObservedVersion

_MAX_REQUEST_S: Final = 120.0
"""The time after which a request cannot be performed any more: twice the default request timeout of kube-apiserver."""


class OpenStarts:
    """Starts with an unknown outcome, by the uid of the object."""

    def __init__(self) -> None:
        self._starts: Final[dict[str, tuple[ObservedVersion, float]]] = {}

    def add(self, version: ObservedVersion, now_s: float) -> None:
        """``version``: the version that the start names. ``now_s``: the time of the response, or of the time-out."""
        self._starts[version.uid] = version, now_s + _MAX_REQUEST_S

    def forget(self, uid: str) -> None:
        self._starts.pop(uid, None)

    def is_open(self, obj: Mapping[str, Any]) -> bool:
        """Whether a start of this version of the object may be performed later, or was performed already."""
        return self.until_s(obj) is not None

    def until_s(self, obj: Mapping[str, Any]) -> float | None:
        """The time after which a read of the same version settles the start; None if there is no open start."""
        version, until_s = self._starts.get(obj["metadata"]["uid"], (None, 0.0))
        return until_s if version is not None and version.is_same(obj) else None

    def must_read(self, obj: Mapping[str, Any], now_s: float) -> bool:
        """Whether a read of the object settles its start. The cached version does not: it may be older than the
        start."""
        until_s = self.until_s(obj)
        return until_s is not None and until_s < now_s

    def settle(self, obj: Mapping[str, Any], now_s: float) -> None:
        """``obj``: the object that was read after ``now_s``."""
        if self.must_read(obj, now_s):
            self.forget(obj["metadata"]["uid"])
