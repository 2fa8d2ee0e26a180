"""Defaults of the kinds with a pod template: apps, batch, ReplicationController and PodTemplate.

The template's own pod spec is defaulted by ``apimachinery/defaults/pod.py``.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.defaults.core import default_persistent_volume_claim
from headgate.apimachinery.defaults.pod import default_pod_spec
from headgate.kube.object_meta import TEMPLATE_GENERATION

_MAX_INT32: Final = 2**31 - 1


def _default_template(spec: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = spec.setdefault("template", {})
    default_pod_spec(template.setdefault("spec", {}))
    return template


def default_pod_template(obj: dict[str, Any]) -> None:
    _default_template(obj)


def default_replication_controller(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if (template := spec.get("template")) is None:
        return
    if labels := template.get("metadata", {}).get("labels"):
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
    default_pod_spec(template.setdefault("spec", {}))


def default_deployment(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _default_template(spec)


def default_daemon_set(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    _default_template(spec)
    # v1 has this annotation instead of a field; the strategy increments it.
    annotations = obj.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(TEMPLATE_GENERATION, "0")


def default_stateful_set(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for moment in ("whenDeleted", "whenScaled"):
        retention[moment] = retention.get(moment) or "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    _default_template(spec)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        default_persistent_volume_claim(claim)


def default_replica_set(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def default_job(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    template = _default_job_template(spec)
    labels = template.get("metadata", {}).get("labels") or {}
    metadata = obj.setdefault("metadata", {})
    # A job without labels gets those of its pod template. On create, strategy/workloads.py adds generated labels first.
    if not metadata.get("labels") and (spec.get("manualSelector") or "controller-uid" in labels):
        metadata["labels"] = dict(labels)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def default_cron_job(obj: dict[str, Any]) -> None:
    """Jobs get their defaults when they are created; here only the pod template is defaulted."""
    spec = obj.setdefault("spec", {})
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _default_job_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def _default_job_template(spec: dict[str, Any]) -> dict[str, Any]:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    return _default_template(spec)
