"""The version of an object that a write was decided on, for comparison with what the server answers.

It is taken before the write is sent. While the answer is on its way the watch may tell of the result already; a version
that is looked up only then is the answer's own, and the comparison would say that the write changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ObservedVersion(msgspec.Struct, frozen=True):
    uid: str
    resource_version: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> ObservedVersion:
        metadata = obj.get("metadata") or {}
        return cls(metadata.get("uid") or "", metadata.get("resourceVersion") or "")

    def is_same(self, obj: Mapping[str, Any]) -> bool:
        """Whether ``obj`` is that very version. Objects without a version are never the same."""
        return bool(self.resource_version) and self == ObservedVersion.of(obj)
