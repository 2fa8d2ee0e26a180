"""Manifests of what owns pods: apps/v1, batch/v1, and the autoscalers that scale them."""

from __future__ import annotations

from typing import Any

from harness.manifests.kind import Kind, labelled
from harness.manifests.pods import SMALL_POD_SPEC, pod_template, template_of_a_deployment

SELECTOR: dict[str, Any] = {"matchLabels": {"app": "a"}}
JOB_TEMPLATE = pod_template(SMALL_POD_SPEC, restartPolicy="Never")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}

WORKLOAD_KINDS: tuple[Kind, ...] = (
    Kind(
        "apps/v1",
        "Deployment",
        "deployments",
        {"spec": {"selector": SELECTOR, "template": pod_template()}},
        {
            **labelled(app="a"),
            "spec": {
                "replicas": 3,
                "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}},
                "paused": True,
                "template": template_of_a_deployment(),
            },
        },
        {"spec": {"replicas": 5, "revisionHistoryLimit": 2, "paused": None}},
        has_status=True,
        status={"status": {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "unavailableReplicas": 2}},
    ),
    Kind(
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        {"spec": {"selector": SELECTOR, "template": pod_template()}},
        {
            **labelled(app="a"),
            "spec": {"replicas": 0, "minReadySeconds": 3, "selector": SELECTOR, "template": template_of_a_deployment()},
        },
        {"spec": {"replicas": 2}},
        has_status=True,
        status={"status": {"replicas": 2, "fullyLabeledReplicas": 2, "observedGeneration": 1}},
    ),
    Kind(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"selector": SELECTOR, "template": pod_template(), "serviceName": "s"}},
        {
            **labelled(app="a"),
            "spec": {
                "replicas": 2,
                "selector": SELECTOR,
                "serviceName": "s",
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
                "ordinals": {"start": 1},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
                "template": template_of_a_deployment(),
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "store"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
                    }
                ],
            },
        },
        {"spec": {"replicas": 4, "minReadySeconds": 1}},
        has_status=True,
        status={"status": {"replicas": 2, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1}},
    ),
    Kind(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        {"spec": {"selector": SELECTOR, "template": pod_template()}},
        {
            **labelled(app="a"),
            "spec": {
                "selector": SELECTOR,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}},
                "template": template_of_a_deployment(),
            },
        },
        {"spec": {"minReadySeconds": 7}},
        has_status=True,
        status={
            "status": {
                "currentNumberScheduled": 1,
                "numberMisscheduled": 0,
                "desiredNumberScheduled": 2,
                "numberReady": 1,
            }
        },
    ),
    Kind(
        "apps/v1",
        "ControllerRevision",
        "controllerrevisions",
        {"revision": 1},
        {**labelled(app="a"), "revision": 7, "data": {"spec": {"any": ["thing", 1, None]}}},
        {"revision": 8},
    ),
    Kind(
        "batch/v1",
        "Job",
        "jobs",
        {"spec": {"template": JOB_TEMPLATE}},
        {
            **labelled(app="a"),
            "spec": {
                "suspend": True,
                "parallelism": 3,
                "completions": 3,
                "completionMode": "Indexed",
                "backoffLimitPerIndex": 1,
                "maxFailedIndexes": 2,
                "ttlSecondsAfterFinished": 60,
                "activeDeadlineSeconds": 100,
                "podFailurePolicy": {
                    "rules": [
                        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 3]}},
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    ]
                },
                "template": pod_template(
                    SMALL_POD_SPEC, restartPolicy="Never", schedulingGates=[{"name": "example.com/x"}]
                ),
            },
        },
        {"spec": {"parallelism": 1, "suspend": False}},
        has_status=True,
        status={"status": {"active": 2, "ready": 1, "startTime": "2020-01-01T00:00:00Z"}},
    ),
    Kind(
        "batch/v1",
        "CronJob",
        "cronjobs",
        {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
        {
            **labelled(app="a"),
            "spec": {
                "schedule": "@hourly",
                "timeZone": "Europe/Berlin",
                "concurrencyPolicy": "Forbid",
                "suspend": True,
                "startingDeadlineSeconds": 30,
                "successfulJobsHistoryLimit": 0,
                "jobTemplate": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"parallelism": 2, "template": pod_template(SMALL_POD_SPEC, restartPolicy="OnFailure")},
                },
            },
        },
        {"spec": {"suspend": False}},
        has_status=True,
        status={"status": {"lastScheduleTime": "2020-01-01T00:00:00Z", "active": [{"kind": "Job", "name": "j"}]}},
    ),
    Kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}},
        {
            **labelled(app="a"),
            "spec": {
                "scaleTargetRef": TARGET,
                "minReplicas": 2,
                "maxReplicas": 9,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
                    },
                    {
                        "type": "Pods",
                        "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1.5k"}},
                    },
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
            },
        },
        {"spec": {"maxReplicas": 10}},
        has_status=True,
        status={"status": {"currentReplicas": 1, "desiredReplicas": 2}},
    ),
    Kind(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}},
        {
            **labelled(app="a"),
            "spec": {
                "scaleTargetRef": TARGET,
                "minReplicas": 2,
                "maxReplicas": 9,
                "targetCPUUtilizationPercentage": 55,
            },
        },
        {"spec": {"maxReplicas": 10}},
        has_status=True,
        status={"status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 3}},
    ),
    Kind(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {},
        {
            **labelled(app="a"),
            "spec": {"minAvailable": "50%", "selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        },
        {"spec": {"minAvailable": 2}},
        has_status=True,
        status={
            "status": {
                "disruptionsAllowed": 1,
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "expectedPods": 2,
                "observedGeneration": 1,
            }
        },
    ),
)
