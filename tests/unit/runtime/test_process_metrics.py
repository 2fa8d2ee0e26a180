"""Metrics of the process: its version, which Leases it holds, and how often a component failed."""

from __future__ import annotations

import pytest

import headgate
from harness.fake_protocol import response_to
from harness.metrics_page import families_of
from headgate.runtime.health.process_metrics import ProcessMetricsPage
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.health.server import health_limits


def samples(page: ProcessMetricsPage) -> dict[tuple[str, ...], float]:
    return {
        (each.name, *each.labels.values()): each.value
        for family in families_of(page.page().decode()).values()
        for each in family.samples
        if each.name != "headgate_build_info"
    }


def test_a_candidate_leads_while_its_work_runs_and_no_longer() -> None:
    page = ProcessMetricsPage()
    key = ("leader_election_master_status", "headgate-quota")
    page.add_candidate("headgate-quota")
    assert samples(page) == {key: 0}

    def lead() -> None:
        with page.leading("headgate-quota"):
            assert samples(page) == {key: 1}
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        lead()
    assert samples(page) == {key: 0}


def test_failures_of_a_component_count_from_zero() -> None:
    registry = HealthRegistry()
    registry.process_metrics.add_component("quota")
    key = ("headgate_component_failures_total", "quota")
    assert samples(registry.process_metrics) == {key: 0}
    registry.component_failed("quota", ValueError("x"))
    registry.process_metrics.add_component("quota")
    assert samples(registry.process_metrics) == {key: 1}


def test_a_replica_that_does_not_lead_reports_its_version() -> None:
    response = response_to(HealthRegistry().handler(), b"GET /metrics HTTP/1.1\r\n\r\n", health_limits()).decode()
    assert f'headgate_build_info{{version="{headgate.__version__}",python_version="' in response
