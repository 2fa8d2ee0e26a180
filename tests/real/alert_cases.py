"""When each alert fires, and when it does not: input for `promtool test rules`, made from the alerts themselves.

A series has one value per minute: ``0x9`` is ten zeros, ``1+2x9`` is 1, 3, … 19, ``stale`` ends the series.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from headgate.install.alert_rules import ALERTS, Alert

Object = dict[str, Any]


class AlertCase(NamedTuple):
    """``fires``: the labels of the alert at these minutes, without its severity; None: it does not fire then."""

    name: str
    alert: str
    series: dict[str, str]
    fires: dict[int, dict[str, str] | None]
    value: str = ""


_LEADER = 'leader_election_master_status{name="headgate-quota",instance="%s"}'
_FAILURES = 'headgate_component_failures_total{component="quota",instance="a"}'
_REJECTIONS = 'apiserver_admission_webhook_rejection_count{error_type="%s",name="%s"}'
_PRE_ENQUEUE = 'scheduler_plugin_execution_duration_seconds_bucket{extension_point="%s",plugin="Slow",le="%s"}'
_BOUNDS = ("0.05", "0.2", "+Inf")
_GATE = 'headgate_oldest_gated_seconds{gate="example.com/a"}'
_OVERDUE = 'headgate_overdue_released_pods{instance="%s"}'
_STATUS = 'kueue_cluster_queue_status{cluster_queue="a",status="%s"}'


def _calls(point: str, *per_minute: int) -> dict[str, str]:
    """So many calls per minute in each bucket, cumulative as in a histogram."""
    return {_PRE_ENQUEUE % (point, le): f"0+{calls}x60" for le, calls in zip(_BOUNDS, per_minute, strict=True)}


CASES = (
    AlertCase("no process ever reported", "HeadgateIsDown", {"up": "1x30"}, {4: None, 5: {}}),
    AlertCase(
        "all processes are gone",
        "HeadgateIsDown",
        {'headgate_build_info{version="1"}': "1x10 stale"},
        {10: None, 15: None, 16: {}},
    ),
    AlertCase(
        "one of two replicas is gone",
        "HeadgateIsDown",
        {'headgate_build_info{instance="a"}': "1x10 stale", 'headgate_build_info{instance="b"}': "1x60"},
        {40: None},
    ),
    AlertCase(
        "no replica leads",
        "HeadgateHasNoLeader",
        {_LEADER % "a": "0x30", _LEADER % "b": "0x30"},
        {4: None, 5: {"name": "headgate-quota"}},
    ),
    AlertCase("one replica leads", "HeadgateHasNoLeader", {_LEADER % "a": "0x30", _LEADER % "b": "1x30"}, {20: None}),
    AlertCase(
        "another program has no leader",
        "HeadgateHasNoLeader",
        {'leader_election_master_status{name="kube-scheduler"}': "0x30"},
        {20: None},
    ),
    AlertCase(
        "a component fails every minute",
        "HeadgateComponentFails",
        {_FAILURES: "0x5 1+1x30"},
        {5: None, 12: {"component": "quota", "instance": "a"}},
    ),
    AlertCase("a component failed once", "HeadgateComponentFails", {_FAILURES: "0x5 1x40"}, {8: None, 30: None}),
    AlertCase(
        "calls of a webhook fail",
        "GateWebhookFails",
        {_REJECTIONS % ("calling_webhook_error", "gate.pods.headgate.dev"): "0+1x40"},
        {9: None, 12: {"name": "gate.pods.headgate.dev"}},
    ),
    AlertCase(
        "the webhook refuses requests as it should",
        "GateWebhookFails",
        {
            _REJECTIONS % ("no_error", "queues.headgate.dev"): "0+9x40",
            _REJECTIONS % ("calling_webhook_error", "queues.headgate.dev"): "7x40",
        },
        {30: None},
    ),
    AlertCase(
        "calls of another program's webhook fail",
        "GateWebhookFails",
        {_REJECTIONS % ("calling_webhook_error", "webhook.example.com"): "0+1x40"},
        {30: None},
    ),
    AlertCase(
        "a webhook server does not start",
        "GateWebhookIsNotReady",
        {'headgate_webhook_ready{instance="a"}': "0x40", 'headgate_webhook_ready{instance="b"}': "1x40"},
        {9: None, 10: {"instance": "a"}},
    ),
    AlertCase(
        "a webhook server needs some minutes",
        "GateWebhookIsNotReady",
        {'headgate_webhook_ready{instance="a"}': "0x6 1x40"},
        {5: None, 20: None},
    ),
    AlertCase(
        "one more pod is gated every minute",
        "GatedPodsOnlyRise",
        {'scheduler_pending_pods{queue="gated"}': "1+1x200"},
        {60: None, 100: {"queue": "gated"}},
    ),
    AlertCase(
        "many pods are gated, not more and more",
        "GatedPodsOnlyRise",
        {'scheduler_pending_pods{queue="gated"}': "5000x200"},
        {150: None},
    ),
    AlertCase(
        "all gates were removed meanwhile",
        "GatedPodsOnlyRise",
        {'scheduler_pending_pods{queue="gated"}': "1+1x60 0x5 200x60"},
        {125: None},
    ),
    AlertCase(
        "a hundred pods are not tried",
        "UngatedPodsAreNotTried",
        {'scheduler_pending_pods{queue="active"}': "101x40"},
        {14: None, 15: {"queue": "active"}},
        value="101",
    ),
    AlertCase(
        "few pods are not tried, many are gated",
        "UngatedPodsAreNotTried",
        {'scheduler_pending_pods{queue="active"}': "100x40", 'scheduler_pending_pods{queue="gated"}': "9000x40"},
        {30: None},
    ),
    AlertCase(
        "a pod is gated for a day", "GateIsForgotten", {_GATE: "86340+60x60"}, {31: None, 32: {"gate": "example.com/a"}}
    ),
    AlertCase("the oldest pod is released in time", "GateIsForgotten", {_GATE: "86400+60x20 0+60x60"}, {60: None}),
    AlertCase(
        "the first removal is refused",
        "GateRemovalsAreRefused",
        {'headgate_gate_removals_total{result="refused"}': "0x5 1x20"},
        {5: None, 8: {"result": "refused"}},
    ),
    AlertCase(
        "removals are done, a refusal is long ago",
        "GateRemovalsAreRefused",
        {
            'headgate_gate_removals_total{result="done"}': "0+5x60",
            'headgate_gate_removals_total{result="refused"}': "3x60",
        },
        {45: None},
    ),
    AlertCase(
        "half of the calls take 200 ms",
        "PreEnqueueIsSlow",
        _calls("PreEnqueue", 5, 10, 10),
        {14: None, 17: {"plugin": "Slow"}},
    ),
    AlertCase("one call in twenty takes 200 ms", "PreEnqueueIsSlow", _calls("PreEnqueue", 95, 100, 100), {40: None}),
    AlertCase("another extension point is slow", "PreEnqueueIsSlow", _calls("Filter", 0, 10, 10), {40: None}),
    AlertCase(
        "pods are overdue",
        "PodsTerminateTooLong",
        {_OVERDUE % "leader": "0x5 2x30", _OVERDUE % "follower": "0x40"},
        {10: None, 11: {}},
        value="2",
    ),
    AlertCase(
        "a pod ends two minutes after it was reported",
        "PodsTerminateTooLong",
        {_OVERDUE % "leader": "0x5 1x1 0x30"},
        {8: None, 20: None},
    ),
    AlertCase(
        "a ClusterQueue is stopped",
        "ClusterQueueIsInactive",
        {_STATUS % "active": "0x40", _STATUS % "pending": "1x40"},
        {14: None, 15: {"cluster_queue": "a", "status": "active"}},
    ),
    AlertCase(
        "a ClusterQueue is active",
        "ClusterQueueIsInactive",
        {_STATUS % "active": "1x40", _STATUS % "pending": "0x40"},
        {30: None},
    ),
)


def promtool_input(case: AlertCase, rules: Path) -> str:
    """The input of promtool for one case."""
    (alert,) = [each for each in ALERTS if each.name == case.alert]
    checks = [
        {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": _expected(alert, labels, case.value)}
        for minute, labels in case.fires.items()
    ]
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    test = {"name": case.name, "interval": "1m", "input_series": series, "alert_rule_test": checks}
    return yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}, sort_keys=False)


def _expected(alert: Alert, labels: dict[str, str] | None, value: str) -> list[Object]:
    if labels is None:
        return []
    annotations = {"summary": alert.summary, "description": alert.action}
    filled = {name: _filled(text, labels, value) for name, text in annotations.items()}
    return [{"exp_labels": {"severity": alert.severity, **labels}, "exp_annotations": filled}]


def _filled(text: str, labels: dict[str, str], value: str) -> str:
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
    return text.replace("{{ $value }}", value)
