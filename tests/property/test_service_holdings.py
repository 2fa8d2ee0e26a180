"""The index of addresses and ports that services hold, against a scan of all services: after staging, commits, losses
and evictions.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headgate.apimachinery.strategy import STRATEGIES
from headgate.apiserver.allocations import Allocations
from headgate.store import Item, Revision, Store

SERVICES: Final = "services"
HOLDS: Final = STRATEGIES["", "Service"].allocations
ADDRESSES: Final = ["10.96.0.1", "10.96.0.2", "10.96.0.3", "None"]
PORTS: Final = [30000, 30001, 30002]
names = st.sampled_from(["a", "b", "c"])


class IndexAgainstReading(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store = Store()
        self.holdings = Allocations(self.store)

    def stage(self, name: str, spec: dict[str, Any], *, delete: bool = False) -> None:
        revision = self.store.next_revision()
        item = Item(SERVICES, "ns", name, "uid", revision, {}, {}, msgspec.json.encode({"spec": spec}))
        self.store.stage(item, delete=delete)

    @rule(
        name=names,
        address=st.sampled_from(ADDRESSES),
        ports=st.lists(st.sampled_from(PORTS), max_size=2),
        health=st.sampled_from([0, 30002]),
    )
    def write(self, name: str, address: str, ports: list[int], health: int) -> None:
        listed = [{"port": 1, "nodePort": port} for port in ports]
        self.stage(name, {"clusterIPs": [address], "ports": listed, "healthCheckNodePort": health})

    @rule(name=names)
    def delete(self, name: str) -> None:
        if self.store.read_applied(SERVICES, "ns", name) is not None:
            self.stage(name, {}, delete=True)

    @rule(share=st.sampled_from([0.3, 1.0]))
    def commit(self, share: float) -> None:
        pending = self.store.pending()
        self.store.commit(pending[int(share * (len(pending) - 1))].revision if pending else Revision(0))

    @rule()
    def lose(self) -> None:
        self.store.rollback()

    @rule()
    def forget(self) -> None:
        self.store.compact(self.store.committed)

    @rule()
    def look(self) -> None:
        self.check()

    def check(self) -> None:
        items = self.store.list_applied(SERVICES, None)
        held = {thing for item in items for thing in HOLDS(msgspec.json.decode(item.data))}
        taken = self.holdings.allocated(SERVICES, HOLDS)
        assert {thing for thing in (*ADDRESSES, *PORTS) if thing in taken} == held

    @invariant()
    def nothing_negative_is_kept(self) -> None:
        index = self.holdings._indexes.get(SERVICES)
        assert index is None or min(index._counts.values(), default=1) > 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.check()


IndexAgainstReading.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestIndexAgainstReading = IndexAgainstReading.TestCase
