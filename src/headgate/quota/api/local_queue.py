"""A LocalQueue: gives a namespace access to one ClusterQueue. A frozen value."""

from __future__ import annotations

import msgspec

from headgate.quota import names
from headgate.quota.api.cluster_queue import read_stop_policy
from headgate.quota.api.wire_reader import InvalidObject, JSONObject, read_object, read_text


class LocalQueue(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    cluster_queue: str = ""
    stop_policy: str = names.NONE
    is_terminating: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_local_queue(obj: JSONObject) -> LocalQueue | str:
    """The queue, or a text that says why it is invalid."""
    try:
        metadata, spec = read_object(obj, "metadata"), read_object(obj, "spec")
        return LocalQueue(
            read_text(metadata, "namespace"),
            read_text(metadata, "name"),
            read_text(spec, "clusterQueue", path="spec."),
            read_stop_policy(spec),
            bool(metadata.get("deletionTimestamp")),
        )
    except InvalidObject as problem:
        return str(problem)
