"""The panels of the Grafana dashboard, as data: the dashboard of an installation, ``deploy/monitoring`` and
docs/observability.md are made from them.

``tests/real/test_observability.py`` asks Prometheus every query.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Object = dict[str, Any]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """``unit``: Grafana's name of it. ``meaning``: what the operator reads from the panel."""

    title: str
    query: str
    legend: str
    meaning: str
    unit: str = "short"


PANELS: Final = (
    Panel(
        title="Leaders",
        query='leader_election_master_status{name=~"headgate-.*"}',
        legend="{{name}} {{instance}}",
        meaning="1 for the replica that decides. If all are 0, nothing is decided.",
    ),
    Panel(
        title="Failures of components",
        query="increase(headgate_component_failures_total[15m])",
        legend="{{component}} {{instance}}",
        meaning="0 if no component has failed. A component that fails starts again with the state of the API.",
    ),
    Panel(
        title="Pods behind each gate",
        query="headgate_gated_pods",
        legend="{{gate}}",
        meaning="Pods that wait for a gate. Which gate holds most of them?",
    ),
    Panel(
        title="Age of the oldest gated pod",
        query="headgate_oldest_gated_seconds",
        legend="{{gate}}",
        unit="s",
        meaning="A line that only rises is a gate that no controller removes.",
    ),
    Panel(
        title="Pods that wait for their queue",
        query="headgate_queue_gated_pods",
        legend="{{queue}}",
        meaning="Pods that autoscalers do not see, because their queue has no capacity.",
    ),
    Panel(
        title="Age of the oldest pod that waits for its queue",
        query="headgate_queue_oldest_waiting_seconds",
        legend="{{queue}}",
        unit="s",
        meaning="How long the oldest waiting pod has waited.",
    ),
    Panel(
        title="Reserved capacity of queues",
        query="headgate_queue_reserved",
        legend="{{queue}} {{resource}}",
        meaning="Capacity of admitted pods that have no node yet: their nodes are being added, or cannot be added.",
    ),
    Panel(
        title="Pods admitted by queues per second",
        query="rate(headgate_queue_admitted_pods_total[5m])",
        legend="{{queue}}",
        unit="ops",
        meaning="The throughput of each queue.",
    ),
    Panel(
        title="Gate removals per second",
        query="rate(headgate_gate_removals_total[5m])",
        legend="{{result}}",
        unit="ops",
        meaning="Anything other than `done` is a problem with the API server or with permissions.",
    ),
    Panel(
        title="Pending pods of the scheduler",
        query="scheduler_pending_pods",
        legend="{{queue}}",
        meaning="`gated` waits for gates, `active` for the scheduler, `unschedulable` for nodes.",
    ),
    Panel(
        title="Scheduling attempts per second",
        query="rate(scheduler_schedule_attempts_total[5m])",
        legend="{{result}}",
        unit="ops",
        meaning="Many `unschedulable` ones: there are not enough nodes. `error`: see the log.",
    ),
    Panel(
        title="Scheduling attempts, 99th percentile",
        query="histogram_quantile(0.99, sum by (le) (rate(scheduler_scheduling_attempt_duration_seconds_bucket[5m])))",
        legend="p99",
        unit="s",
        meaning="Time from the scheduling queue to the binding. Above a second: a slow plugin, or a slow API server.",
    ),
    Panel(
        title="Workloads that wait for quota",
        query="kueue_pending_workloads",
        legend="{{cluster_queue}} {{status}}",
        meaning="`active` is considered in the next cycle, `inadmissible` waits for quota to be released.",
    ),
    Panel(
        title="Jobs behind a gate",
        query="headgate_gated_jobs",
        legend="{{kind}} {{gate}}",
        meaning="Jobs and pods that have no Workload yet, because another controller holds them.",
    ),
    Panel(
        title="Pods that terminate after their quota was released",
        query="headgate_terminating_released_pods_oldest_seconds",
        legend="oldest on {{instance}}",
        unit="s",
        meaning="How long the oldest of them has been terminating. Other workloads have its quota, but not its node.",
    ),
    Panel(
        title="Used share of the nominal quota",
        query="kueue_cluster_queue_resource_usage / (kueue_cluster_queue_nominal_quota > 0)",
        legend="{{cluster_queue}} {{flavor}} {{resource}}",
        unit="percentunit",
        meaning="Above 1, the ClusterQueue borrows from its cohort.",
    ),
    Panel(
        title="Usage of ClusterQueues",
        query="kueue_cluster_queue_resource_usage",
        legend="{{cluster_queue}} {{flavor}} {{resource}}",
        meaning="In cores, bytes or numbers.",
    ),
    Panel(
        title="Workloads admitted per second",
        query="sum by (cluster_queue) (rate(kueue_admitted_workloads_total[5m]))",
        legend="{{cluster_queue}}",
        unit="ops",
        meaning="The throughput of each ClusterQueue.",
    ),
    Panel(
        title="Evictions per second",
        query="sum by (cluster_queue, reason) (rate(kueue_evicted_workloads_total[5m]))",
        legend="{{cluster_queue}} {{reason}}",
        unit="ops",
        meaning="Work that was stopped. Many preemptions: priorities or nominal quotas do not fit the load.",
    ),
    Panel(
        title="Waiting time for quota, 90th percentile",
        query="histogram_quantile(0.9, sum by (le, cluster_queue) ("
        "rate(kueue_admission_wait_time_seconds_bucket[30m])))",
        legend="{{cluster_queue}}",
        unit="s",
        meaning="Of the Workloads that were admitted in the last half hour.",
    ),
    Panel(
        title="Webhook reviews, 99th percentile",
        query="histogram_quantile(0.99, sum by (le, webhook) ("
        "rate(headgate_webhook_review_duration_seconds_bucket[5m])))",
        legend="{{webhook}}",
        unit="s",
        meaning="API servers wait for this at every write that the webhook sees. Usually a few milliseconds.",
    ),
)


def dashboard_json(uid: str) -> Object:
    """The dashboard, in the format of Grafana."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "description": panel.meaning,
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
            "fieldConfig": {"defaults": {"min": 0, "unit": panel.unit}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "expr": panel.query, "legendFormat": panel.legend}],
        }
        for number, panel in enumerate(PANELS)
    ]
    variable = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    return {
        "uid": uid,
        "title": "Headgate",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [variable]},
        "panels": panels,
    }
