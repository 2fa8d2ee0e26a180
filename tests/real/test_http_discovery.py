"""Discovery."""

from __future__ import annotations

import pytest

from harness.both import Both
from harness.scenario import TABLE, Case, case, get

CASES = [
    case("nodes as a table", get("/api/v1/nodes?limit=500", TABLE)),
    case("version", get("/version")),
    case("api", get("/api")),
    case("a pod list", get("/api/v1/namespaces/{ns}/pods")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_discovery_is_the_same(both: Both, case: Case) -> None:
    both.agree(case)
