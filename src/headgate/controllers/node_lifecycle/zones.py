"""How fast the unready nodes of a zone may be tainted so that their pods are evicted.

In a large zone in which most nodes are unready, nodes are tainted slowly; in a small one, no node is tainted. If no
node of the whole cluster is ready, the controller itself is probably disconnected, and no node is tainted. Pure: the
caller provides the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.controllers.node_lifecycle.config import NodeLifecycleConfig

Zone = tuple[str, str]

_MAX_IGNORED: Final = 2  # up to this number, unready nodes do not count as an outage of the zone


class EvictionZones:
    def __init__(self, config: NodeLifecycleConfig) -> None:
        self._config = config
        self._zone_of: dict[str, tuple[Zone, bool]] = {}
        self._ready: dict[Zone, set[str]] = {}
        self._unready: dict[Zone, set[str]] = {}
        self._zones_with_ready = 0
        self._next_eviction_s: dict[Zone, float] = {}

    @property
    def is_fully_disrupted(self) -> bool:
        """Whether there are nodes, and none is ready."""
        return bool(self._zone_of) and not self._zones_with_ready

    def put(self, name: str, zone: Zone | None, *, ready: bool) -> Iterable[str]:
        """Sets the zone and the readiness of a node; ``None`` removes it. Returns the nodes that may be tainted now."""
        before = self._zone_of.get(name)
        if before == (zone, ready):
            return ()
        affected = {each for each in (zone, before[0] if before else None) if each is not None}
        was_fully_disrupted, zones_without_evictions = (
            self.is_fully_disrupted,
            [each for each in affected if not self.evictions_per_s(each)],
        )
        self._drop(name)
        if zone is not None:
            self._zone_of[name] = (zone, ready)
            self._count(zone, name, ready=ready)
        if self.is_fully_disrupted != was_fully_disrupted:
            return list(self._zone_of)
        return sorted(
            other
            for each in zones_without_evictions
            if self.evictions_per_s(each) > 0
            for other in self._unready.get(each, ())
        )

    def _drop(self, name: str) -> None:
        if name not in self._zone_of:
            return
        zone, ready = self._zone_of.pop(name)
        group = (self._ready if ready else self._unready)[zone]
        group.discard(name)
        if ready and not group:
            self._zones_with_ready -= 1

    def evictions_per_s(self, zone: Zone) -> float:
        ready, unready = len(self._ready.get(zone, ())), len(self._unready.get(zone, ()))
        config = self._config
        if self.is_fully_disrupted:
            return 0.0
        if ready and unready > _MAX_IGNORED and unready / (ready + unready) >= config.unhealthy_share:
            return config.secondary_evictions_per_s if ready + unready > config.large_zone else 0.0
        return config.evictions_per_s

    def next_eviction_in_s(self, zone: Zone, now_s: float) -> float | None:
        """How long until the next node of the zone may be tainted; ``None`` if evictions are stopped."""
        if self.evictions_per_s(zone) <= 0:
            return None
        return max(self._next_eviction_s.get(zone, 0.0) - now_s, 0.0)

    def record_eviction(self, zone: Zone, now_s: float) -> None:
        rate = self.evictions_per_s(zone)
        if rate > 0:
            self._next_eviction_s[zone] = now_s + 1 / rate

    def _count(self, zone: Zone, name: str, *, ready: bool) -> None:
        group = (self._ready if ready else self._unready).setdefault(zone, set())
        self._zones_with_ready += ready and not group
        group.add(name)
