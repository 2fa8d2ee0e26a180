"""A LocalQueue: a namespace's door to one ClusterQueue. A frozen value."""

from __future__ import annotations

import msgspec

from headgate.quota import names
from headgate.quota.cluster_queue import read_stop_policy
from headgate.quota.reading import Unreadable, Wire, part, text


class LocalQueue(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    cluster_queue: str = ""
    stop_policy: str = names.NONE
    is_terminating: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_local_queue(wire: Wire) -> LocalQueue | str:
    """The queue, or why it cannot be counted with."""
    try:
        metadata, spec = part(wire, "metadata"), part(wire, "spec")
        return LocalQueue(
            text(metadata, "namespace"),
            text(metadata, "name"),
            text(spec, "clusterQueue", path="spec."),
            read_stop_policy(spec),
            bool(metadata.get("deletionTimestamp")),
        )
    except Unreadable as problem:
        return str(problem)
