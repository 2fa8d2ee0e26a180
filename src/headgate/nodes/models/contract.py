"""What a model of an autoscaler is to whoever runs it: facts of the API in, machines to buy and to give back out.

Time is an argument, in seconds; the same facts in the same order give the same effects. Whoever runs a model calls
``due`` when ``next_deadline_s`` has come, and again until that lies in the future (``nodes/models/shell.py`` does).
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

Object = dict[str, Any]


class Buy(msgspec.Struct, frozen=True):
    """A machine joins: create this Node. ``pods`` (namespace/name) are those it was bought for."""

    node: Object
    pods: tuple[str, ...]


class Taint(msgspec.Struct, frozen=True):
    """Keep new pods off a node that is about to go; ``off``: let them come again."""

    name: str
    uid: str
    key: str
    off: bool = False


class Remove(msgspec.Struct, frozen=True):
    """The machine is given back."""

    name: str
    uid: str


class Tell(msgspec.Struct, frozen=True):
    """An Event on a pod."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str


Effect = Buy | Taint | Remove | Tell


class Model(Protocol):
    def pod_applied(self, pod: Object, now_s: float) -> None: ...

    def pod_removed(self, uid: str, now_s: float) -> None: ...

    def node_applied(self, node: Object, now_s: float) -> None: ...

    def node_removed(self, name: str, now_s: float) -> None: ...

    def synced(self, now_s: float) -> None:
        """All pods and nodes that there are have been told; nothing is bought before."""
        ...

    def due(self, now_s: float) -> list[Effect]: ...

    def next_deadline_s(self) -> float | None: ...
