"""No metric has a label whose values grow with the number of pods: each label is known, and known to be limited."""

from __future__ import annotations

import pytest
from tools.render_monitoring import METRICS

from headgate.scheduling.metrics.gate_metrics import OTHER
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue

LIMITED_BY = {
    "the program": {
        *("active", "code", "compiler", "component", "event", "git_version", "is_group", "python_version", "result"),
        *("reason", "scope", "status", "type", "underlying_cause", "verb", "version", "webhook", "attempts"),
        *("decision", "outcome", "rule", "certain", "state", "cause"),
    },
    "the configuration of the scheduler": {"profile", "plugin", "extension_point"},
    "the queues that an administrator creates": {
        *("queue", "queue_name", "cluster_queue", "preempting_cluster_queue", "name", "namespace"),
        *("cohort", "parent_cohort", "root_cohort", "flavor", "priority_class"),
    },
    "the GatePolicies that an administrator creates": {"policy", "action", "gate"},
    "the kinds that are served": {"group", "resource", "subresource", "job_kind", "kind"},
    "a limit of the metric": {"gate", "resource"},
}
"""The label `queue` of `scheduler_*` metrics is a queue of the scheduler; `name` is a LocalQueue, a Lease or a gate of
Kueue; `resource` is a kind or, with a limit, a resource of pods."""
EVERY = [(name, label) for families in METRICS.values() for name, each in families.items() for label in each.labels]


@pytest.mark.parametrize(("metric", "label"), EVERY)
def test_the_values_of_a_label_are_limited(metric: str, label: str) -> None:
    assert label in set().union(*LIMITED_BY.values()), f"what limits the values of {label} of {metric}?"


def test_no_label_is_listed_that_no_metric_has() -> None:
    assert set().union(*LIMITED_BY.values()) == {label for _, label in EVERY}


def _series(pods: int) -> set[str]:
    """Of a scheduler with this number of pods, a third of which run, wait for their queue, and have a gate."""
    world = QueuedWorld(a_queue("q", "2"))
    for number in range(0, pods, 3):
        world.show(
            a_gated_pod(f"runs-{number}", "1m"),
            a_gated_pod(f"waits-{number}", "9"),
            a_gated_pod(f"gated-{number}", "1m", gates=(f"example.com/gate-{number}",)),
        )
    world.step()
    page = world.scheduler.metrics_exposition(world.now_s).decode()
    return {line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")}


def test_a_thousand_pods_have_no_more_series_than_four_hundred() -> None:
    few, many = _series(399), _series(999)
    assert many - few == set()
    assert any(f'gate="{OTHER}"' in each for each in few)
