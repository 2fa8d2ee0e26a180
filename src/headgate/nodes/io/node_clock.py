"""The time of the simulated nodes: the time of the machine, which a test may set forward.

How long pods run, and when nodes boot and fail, follows this clock. The API server, the controllers and the scheduler
have the time of the machine.
"""

from __future__ import annotations

from collections.abc import Callable


class NodeClock:
    """Used only in the event loop of the nodes."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        """How far the nodes are ahead of the machine."""
        self._listeners: list[Callable[[], None]] = []

    def advance(self, by_s: float) -> None:
        """Sets the clock forward; everything that becomes due happens at once. It cannot be set back."""
        if by_s < 0:
            raise ValueError(f"the clock of the nodes cannot be set back ({by_s} s)")
        self.ahead_s += by_s
        for listener in self._listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """``listener`` is called after each change."""
        self._listeners.append(listener)
