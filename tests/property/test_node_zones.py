"""Incremental counts of zones equal a full recount, and nodes that may be evicted now are reported."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.node_lifecycle.config import NodeLifecycleConfig
from headgate.controllers.node_lifecycle.zones import EvictionZones

PATIENCE = NodeLifecycleConfig(large_zone=4)
ZONES = [("r", "a"), ("r", "b")]
MOVES = st.tuples(
    st.integers(0, 5), st.sampled_from([*ZONES[:1] * 5, ZONES[1], None]), st.integers(0, 2).map(lambda bit: bit == 0)
)
Nodes = dict[str, tuple[tuple[str, str], bool]]


def rate_of(nodes: Nodes, zone: tuple[str, str]) -> float:
    if nodes and not any(ready for _, ready in nodes.values()):
        return 0.0
    states = [ready for where, ready in nodes.values() if where == zone]
    unready = states.count(False)
    if True in states and unready > 2 and unready / len(states) >= PATIENCE.unhealthy_share:
        return PATIENCE.secondary_evictions_per_s if len(states) > PATIENCE.large_zone else 0.0
    return PATIENCE.evictions_per_s


@given(st.lists(st.booleans(), min_size=6, max_size=6), st.lists(MOVES, min_size=3, max_size=30))
def test_rates_that_are_kept_are_those_of_a_recount(
    begin: list[bool], moves: list[tuple[int, tuple[str, str] | None, bool]]
) -> None:
    zones, nodes = EvictionZones(PATIENCE), Nodes()
    crowd = [(number, ZONES[0], ready) for number, ready in enumerate(begin)]
    for number, zone, ready in [*crowd, *moves]:
        name = f"n{number}"
        before = {each: rate_of(nodes, each) for each in ZONES}
        woken = set(zones.put(name, zone, ready=ready))
        nodes.pop(name, None)
        if zone is not None:
            nodes[name] = (zone, ready)
        for each in ZONES:
            rate = rate_of(nodes, each)
            assert zones.evictions_per_s(each) == rate
            if rate > 0 and before[each] == 0:
                unready = {other for other, (where, is_ready) in nodes.items() if where == each and not is_ready}
                assert woken >= unready - {name}, "whose turn may have come is not told"
        assert zones.is_fully_disrupted == (bool(nodes) and not any(is_ready for _, is_ready in nodes.values()))


@given(st.lists(st.floats(0, 40), min_size=1, max_size=12))
def test_turns_of_a_zone_are_never_closer_than_its_rate(waits_s: list[float]) -> None:
    zones, now_s, last_s = EvictionZones(PATIENCE), 1000.0, float("-inf")
    zones.put("ready", ZONES[0], ready=True)
    for wait_s in waits_s:
        now_s += wait_s
        if zones.next_eviction_in_s(ZONES[0], now_s) == 0:
            zones.record_eviction(ZONES[0], now_s)
            assert now_s - last_s >= 1 / PATIENCE.evictions_per_s - 1e-6
            last_s = now_s
