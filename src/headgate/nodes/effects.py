"""Effects of hollow kubelets on the API. ``nodes/hollow_kubelets.py`` decides, ``nodes/io/kubelet_runner.py`` performs.

Every write has the uid of its object as a precondition, so a later pod or node of the same name is not changed.
"""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]


class CreateNode(msgspec.Struct, frozen=True):
    node: Object


class PatchNodeStatus(msgspec.Struct, frozen=True):
    """A strategic merge patch of the status."""

    name: str
    uid: str
    status: Object


class PatchNodeTaints(msgspec.Struct, frozen=True):
    """A strategic merge patch of the taints: entries to add, or to remove by key with ``$patch: delete``."""

    name: str
    uid: str
    taints: list[Object]


class DeleteNode(msgspec.Struct, frozen=True):
    name: str
    uid: str


class RenewLease(msgspec.Struct, frozen=True):
    """Renew the lease of a node; create it if it is missing."""

    name: str
    uid: str
    renewed_s: float
    duration_s: int


class PatchPodStatus(msgspec.Struct, frozen=True):
    """A strategic merge patch of the status."""

    namespace: str
    name: str
    uid: str
    status: Object


class DeletePod(msgspec.Struct, frozen=True):
    """Delete the pod without a grace period: its containers have stopped."""

    namespace: str
    name: str
    uid: str


Effect = CreateNode | PatchNodeStatus | PatchNodeTaints | DeleteNode | RenewLease | PatchPodStatus | DeletePod
