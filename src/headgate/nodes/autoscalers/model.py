"""The interface of an autoscaler model: it receives pods and nodes, and returns machines to add and to remove.

Time is an argument, in seconds; the same events in the same order give the same effects. The runner
(``nodes/io/autoscaler_runner.py``) calls ``due`` when ``next_deadline_s`` is reached, and again until that lies in the
future.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

Object = dict[str, Any]


class AddMachine(msgspec.Struct, frozen=True):
    """Create this Node: the machine joins. ``pods`` (namespace/name) caused the order."""

    node: Object
    pods: tuple[str, ...]


class TaintNode(msgspec.Struct, frozen=True):
    """Keep new pods off a node that is about to be removed; ``off``: remove the taint."""

    name: str
    uid: str
    key: str
    off: bool = False


class RemoveMachine(msgspec.Struct, frozen=True):
    """Remove the machine."""

    name: str
    uid: str


class EmitAutoscalerEvent(msgspec.Struct, frozen=True):
    """An Event on a pod."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str


Effect = AddMachine | TaintNode | RemoveMachine | EmitAutoscalerEvent


class AutoscalerModel(Protocol):
    def pod_applied(self, pod: Object, now_s: float) -> None: ...

    def pod_removed(self, uid: str, now_s: float) -> None: ...

    def node_applied(self, node: Object, now_s: float) -> None: ...

    def node_removed(self, name: str, now_s: float) -> None: ...

    def synced(self, now_s: float) -> None:
        """The initial lists of pods and nodes are complete. The model orders no machine before."""
        ...

    def due(self, now_s: float) -> list[Effect]: ...

    def next_deadline_s(self) -> float | None: ...
