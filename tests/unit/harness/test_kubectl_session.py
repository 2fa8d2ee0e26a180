"""What the comparison of kubectl's texts leaves out, and nothing beside it."""

from __future__ import annotations

import pytest

from harness.kubectl_session import IP_REPAIR

TITLES = "Events:\n  Type     Reason  Age   From   Message\n  ----     ------  ----  ----   -------\n"
REPAIR = "  Warning  ClusterIPNotAllocated  1s  ipallocator-repair-controller  Cluster IP [IPv4]: 10.0.0.7 is not\n"
OTHER = "  Warning  Odd  1s  test  something odd\n"


def test_an_event_of_the_repair_loop_is_left_out() -> None:
    assert IP_REPAIR.sub("Events:  <none>\n", f"Name: a\n{TITLES}{REPAIR}") == "Name: a\nEvents:  <none>\n"


@pytest.mark.parametrize("rows", [OTHER, REPAIR.replace("ipallocator-repair-controller", "test")])
def test_other_events_are_compared(rows: str) -> None:
    assert not IP_REPAIR.search(f"{TITLES}{rows}")
