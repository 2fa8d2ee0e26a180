"""What every stage of Kueue's queues has: its kinds, two priorities, a flavor, a queue, and the way into it."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from embedded import Embedded
from headgate.quota.kinds.definitions import definitions
from headgate.store import Store
from kueueing import Wire, a_cluster_queue, a_local_queue

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/namespaces/ns/workloads"
PODS = "/api/v1/namespaces/ns/pods"
PREEMPTION: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def store_with_kinds(crds: Sequence[Wire] = ()) -> Store:
    """A store in which the kinds are defined. It is copied: to check their schemas takes longer than most tests."""
    return copy.deepcopy(_store_with_kinds(msgspec.json.encode(crds)))


@functools.cache
def _store_with_kinds(crds: bytes) -> Store:
    server = Embedded(namespace="")
    server.uids = (f"00000000-0000-4000-9000-{number:012d}" for number in itertools.count(1))
    for each in (*definitions(both=False), *msgspec.json.decode(crds)):
        made(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
    return server.api.store


def furnish(server: Embedded, cpu: int, flavor: Wire, **spec: Any) -> None:
    """``server`` has a store of `store_with_kinds`; ``spec``: of the queue, beside its quota."""
    for kind, value in (("low", 1), ("high", 100)):
        body = {"metadata": {"name": kind}, "value": value}
        made(server, f"{API}/workloadpriorityclasses", queueing("WorkloadPriorityClass", body))
    made(server, f"{API}/resourceflavors", queueing("ResourceFlavor", flavor))
    queue = a_cluster_queue("cq", {"default": {"cpu": cpu}}, **spec)
    made(server, f"{API}/clusterqueues", queueing("ClusterQueue", queue))
    made(server, f"{API}/namespaces/ns/localqueues", queueing("LocalQueue", a_local_queue()))


def queueing(kind: str, obj: Wire) -> Wire:
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace")}
    kept = {key: value for key, value in obj.items() if key != "status"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **kept, "metadata": metadata}


def made(server: Embedded, path: str, body: Wire) -> Wire:
    answer = server.post(path, body)
    assert answer.status == 201, answer.body
    found: Wire = answer.body
    return found
