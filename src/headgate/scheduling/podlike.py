"""What the queue reads of a pod, and of its shape: no more than that, so that tests and other engines bring their own.

The pod that the scheduler works with is ``pod.py``'s; it has all of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class ShapeLike(Protocol):
    """What all pods with an equal specification share; equal shapes are the same object."""

    @property
    def requests(self) -> Mapping[str, int]: ...

    @property
    def tolerations(self) -> Sequence[Any]: ...


class PodLike(Protocol):
    @property
    def uid(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def scheduler_name(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def created_s(self) -> float: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """Those that a plugin named; see ``contract.py``."""

    @property
    def gates(self) -> tuple[str, ...]: ...

    @property
    def node_name(self) -> str: ...

    @property
    def nominated_node(self) -> str: ...

    @property
    def shape(self) -> ShapeLike: ...
