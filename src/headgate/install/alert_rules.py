"""The alerts of Headgate, as data: PrometheusRule, ``deploy/monitoring`` and docs/observability.md are made from them.

``tests/real/alert_cases.py`` says for each when it fires and when it does not, and promtool runs these cases. The
expressions use metrics of Headgate, and one of kube-apiserver.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Object = dict[str, Any]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """``lasts``: how long the expression must be true. ``summary`` may use labels of the series. ``action``: what the
    operator does."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    action: str

    def rule(self) -> Object:
        """In the format of Prometheus."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.action},
        }


ALERTS: Final = (
    Alert(
        name="HeadgateIsDown",
        expression="absent(headgate_build_info)",
        lasts="5m",
        severity="critical",
        summary="No Headgate process reports metrics: pods and jobs in queues wait",
        action="Look at the pods and their logs: kubectl -n headgate-system get pods. If they run, Prometheus cannot "
        "scrape them: look at its page /targets.",
    ),
    Alert(
        name="HeadgateHasNoLeader",
        expression='max by (name) (leader_election_master_status{name=~"headgate-.*"}) == 0',
        lasts="5m",
        severity="critical",
        summary="Headgate runs, and no replica holds the Lease {{ $labels.name }}: its component decides nothing",
        action="Look at the Lease (kubectl -n kube-system get leases) and at the logs of the replicas: the Lease "
        "cannot be renewed, or another program holds it.",
    ),
    Alert(
        name="HeadgateComponentFails",
        expression="increase(headgate_component_failures_total[15m]) > 2",
        lasts="1m",
        severity="critical",
        summary="The component {{ $labels.component }} of {{ $labels.instance }} fails again and again",
        action="The log has the error with its stack trace; /readyz?verbose names it, too. Go back to the previous "
        "version, or remove the plugin or the object that the error names.",
    ),
    Alert(
        name="GateWebhookFails",
        expression='sum by (name) (rate(apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",'
        'name=~".*headgate.dev"}[10m])) > 0',
        lasts="10m",
        severity="critical",
        summary="API servers cannot call the webhook {{ $labels.name }}: pods that name a queue of Kueue are refused, "
        "other pods get no gate",
        action="Look at the Service, the NetworkPolicy and the pods of headgate-system; then at the certificate "
        "(kubectl get validatingwebhookconfiguration headgate). To create pods in the meantime: docs/operations.md, "
        "When to roll back.",
    ),
    Alert(
        name="GateWebhookIsNotReady",
        expression="min by (instance) (headgate_webhook_ready) == 0",
        lasts="10m",
        severity="warning",
        summary="The webhook server of {{ $labels.instance }} does not answer reviews",
        action="The log says why it does not start: a missing permission, a port in use, a certificate that cannot be "
        "read or written.",
    ),
    Alert(
        name="GatedPodsOnlyRise",
        expression='min_over_time(scheduler_pending_pods{queue="gated"}[1h]) > 0'
        ' and delta(scheduler_pending_pods{queue="gated"}[1h]) > 50',
        lasts="30m",
        severity="warning",
        summary="Pods get gates faster than gates are removed",
        action="headgate gates list -A names the gates and their oldest pods. Does the controller run that removes the "
        "gate? For Headgate's own gate: is the queue full, or its limit too low?",
    ),
    Alert(
        name="UngatedPodsAreNotTried",
        expression='scheduler_pending_pods{queue="active"} > 100',
        lasts="15m",
        severity="warning",
        summary="{{ $value }} pods without gates wait for their first scheduling attempt",
        action="The scheduler is too slow: look at the panels of scheduling attempts, at slow plugins in the log, and "
        "at the CPU limit of the pods.",
    ),
    Alert(
        name="GateIsForgotten",
        expression="headgate_oldest_gated_seconds > 86400",
        lasts="30m",
        severity="warning",
        summary="A pod waits for the gate {{ $labels.gate }} for more than a day",
        action="headgate gates list -A names the pod. Which controller removes this gate, and does it run? If none "
        "does: docs/operations.md, When to roll back.",
    ),
    Alert(
        name="GateRemovalsAreRefused",
        expression='increase(headgate_gate_removals_total{result="refused"}[30m]) > 0',
        lasts="1m",
        severity="warning",
        summary="The API server refuses to remove queue gates: their pods wait until the gate is removed",
        action="The log line `refused` with reason GateRemoval has the pod and the answer: a missing right, or an "
        "admission webhook of another program. Then remove the gate with headgate gates lift.",
    ),
    Alert(
        name="PreEnqueueIsSlow",
        expression="histogram_quantile(0.9, sum by (le, plugin) ("
        'rate(scheduler_plugin_execution_duration_seconds_bucket{extension_point="PreEnqueue"}[15m]))) > 0.1',
        lasts="15m",
        severity="warning",
        summary="The PreEnqueue plugin {{ $labels.plugin }} takes more than 100 ms",
        action="Disable the plugin in its profile: it delays all pods. 100 ms is the limit of KEP-3521.",
    ),
    Alert(
        name="PodsTerminateTooLong",
        expression="max(headgate_overdue_released_pods) > 0",
        lasts="5m",
        severity="warning",
        summary="{{ $value }} pods still terminate long after their grace periods, and their quota is released: "
        "workloads are admitted for which nodes have no capacity",
        action="The Events name the pods and their nodes (kubectl get events -A --field-selector "
        "reason=TerminatingTooLong). Look at the kubelet, at hanging volumes and devices. docs/kueue.md, Pods that "
        "terminate too long, says what Headgate can do about them.",
    ),
    Alert(
        name="ClusterQueueIsInactive",
        expression='kueue_cluster_queue_status{status="active"} == 0',
        lasts="15m",
        severity="warning",
        summary="The ClusterQueue {{ $labels.cluster_queue }} admits nothing",
        action="Its condition Active says why (kubectl describe clusterqueue): it is stopped, or a flavor or an "
        "admission check is missing.",
    ),
)


def rule_groups(name: str) -> list[Object]:
    """All alerts as the groups of a rule file; ``name``: of the group."""
    return [{"name": name, "rules": [each.rule() for each in ALERTS]}]
