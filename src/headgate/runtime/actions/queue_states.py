"""Holds and resumes queues: Volcano's by the annotation for their state, Kueue's by ``spec.stopPolicy``.

A held queue admits nothing new. What it has admitted keeps running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.api.queue_state import CLOSED, OPEN
from headgate.capacity.names import QUEUES, STATE
from headgate.client.write_requests import patch
from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import APIResource
from headgate.quota import names
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES

QUEUE_KINDS: Final[Mapping[str, APIResource]] = {
    "Queue": QUEUES,
    "ClusterQueue": CLUSTER_QUEUES,
    "LocalQueue": LOCAL_QUEUES,
}


def queue_state_request(kind: str, namespace: str, name: str, uid: str, *, is_held: bool) -> HTTPRequest:
    """``kind``: of :data:`QUEUE_KINDS`."""
    if kind == "Queue":
        body: dict[str, Any] = {"metadata": {"annotations": {STATE: CLOSED if is_held else OPEN}}}
    else:
        body = {"spec": {"stopPolicy": names.HOLD if is_held else names.NONE}}
    return patch(QUEUE_KINDS[kind], namespace, name, uid, body)
