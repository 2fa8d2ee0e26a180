"""SchedulingGates (KEP-3521): a pod with a scheduling gate is not tried.

A gate that another built-in plugin handles (``QueueAllocation.owns``) is ignored here, since that plugin rejects the
pod. A rejected pod is tried again only when its last other gate is removed (``cluster_events.gates_eliminated``), and
never after a time, so a gated pod costs nothing while it waits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from headgate.kube.scheduling_gates import waiting_message
from headgate.scheduling.cache.pod import PodLike
from headgate.scheduling.framework.cluster_events import (
    POD_GATES_ELIMINATED,
    UNSCHEDULABLE_POD,
    GateOwnership,
    no_gate_owned,
    on,
)
from headgate.scheduling.framework.interface import Rejection

_GATES_ELIMINATED: Final = on(UNSCHEDULABLE_POD, POD_GATES_ELIMINATED)


class SchedulingGates:
    """``enabled`` is the feature gate PodSchedulingReadiness: without it the field is ignored."""

    name: Final = "SchedulingGates"

    def __init__(self, is_owned: GateOwnership = no_gate_owned, *, enabled: bool = True) -> None:
        self._is_owned = is_owned
        self._enabled = enabled

    def ignoring(self, is_owned: GateOwnership) -> SchedulingGates:
        """A copy that ignores the gates of another plugin."""
        return SchedulingGates(is_owned, enabled=self._enabled)

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        if not pod.gates or not self._enabled:
            return None
        gates = tuple(gate for gate in pod.gates if not self._is_owned(gate))
        return _rejection(gates) if gates else None


@lru_cache(maxsize=1024)
def _rejection(gates: tuple[str, ...]) -> Rejection:
    """Cached, because thousands of pods wait for the same gates."""
    return Rejection(SchedulingGates.name, waiting_message(gates), _GATES_ELIMINATED, expires=False)
