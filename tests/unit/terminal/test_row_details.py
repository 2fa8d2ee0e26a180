"""The details of rows that need no explanation: all that the row has."""

from __future__ import annotations

import pytest

from headgate.terminal.row_details import row_lines
from headgate.views.rows import GateRow, NodeResource, NodeRow, OverviewRow, ProblemRow, QuotaResource, QuotaRow, Row

NOW_S = 1000.0
RESOURCE = NodeResource("cpu", 8000, 2000, "2 of 8 requested")
QUOTA = QuotaResource("spot", "cpu", 4, 1, 0, None, None, "1 of 4 used")


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        (OverviewRow("ns", queued=3, pending=None), ("namespace ns", "Workload: 3", "Workloads that are pending: ?")),
        (
            GateRow("k", "g.example/x", "ns", 2, "old", 400.0, "alice", "policy", "Healthy"),
            ("gate g.example/x in namespace ns", "holds 2 pods", "pod old waits longest, for 10m", "alice", "policy"),
        ),
        (
            NodeRow("n", "zone-a", False, True, 1, 0.25, "cpu", (RESOURCE,)),
            ("node n: not ready", "in group zone-a", "1 pod;", "cpu: 2 of 8 requested"),
        ),
        (
            ProblemRow("k", "error", "X", "queue/q", "it is closed", "ns", "open it"),
            ("error: queue/q in namespace ns", "it is closed", "next", "open it"),
        ),
        (
            QuotaRow("k", "Cohort", "all", parent="Cohort/org", resources=(QUOTA,)),
            ("Cohort all", "below Cohort/org", "cpu in spot: 1 of 4 used"),
        ),
    ],
)
def test_a_row_is_shown_in_full(row: Row, texts: tuple[str, ...]) -> None:
    text = "\n".join(row_lines(row, NOW_S))
    for each in texts:
        assert each in text, text
