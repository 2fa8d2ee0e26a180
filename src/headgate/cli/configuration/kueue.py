"""Reads Kueue's own ``Configuration`` (config.kueue.x-k8s.io v1beta1 and v1beta2) as a Headgate ``Configuration``.

A field that changes which workloads run, or when, is either honoured or an error with its path. A field that only
concerns Kueue's own process (ports, concurrency, certificates) is a remark: it has no effect here. docs/kueue.md lists
both. Defaults are those of Kueue v0.19.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.cli.configuration.decoder import (
    LABEL_SELECTOR,
    validate_duration,
    validate_feature_gates,
    validate_header,
    validate_names,
    validate_selector,
)
from headgate.cli.configuration.types import (
    Configuration,
    JobsSection,
    LeaderElectionSection,
    PodsReadySection,
    RequeuingSection,
)
from headgate.jobs.settings import BATCH_JOB, FRAMEWORKS, POD, POD_FRAMEWORKS
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.serializer import strict_decoding as strict
from headgate.kube.serializer.strict_decoding import Object
from headgate.kube.timestamps import format_duration

GROUP: Final = "config.kueue.x-k8s.io"
VERSIONS: Final = (f"{GROUP}/v1beta1", f"{GROUP}/v1beta2")
KIND: Final = "Configuration"
_OLD: Final = VERSIONS[0]
_NAMESPACE: Final = "kueue-system"
_DEFAULT_TIMEOUT: Final = "30m"
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"

_REQUEUING: Final = strict.record(
    {
        "timestamp": strict.text,
        "backoffLimitCount": strict.int32,
        "backoffBaseSeconds": strict.int32,
        "backoffMaxSeconds": strict.int32,
    }
)
_PODS_READY: Final = strict.record(
    {
        "enable": strict.boolean,
        "timeout": strict.anything,
        "recoveryTimeout": strict.anything,
        "blockAdmission": strict.boolean,
        "requeuingStrategy": _REQUEUING,
    }
)
_INTEGRATIONS: Final = strict.record(
    {
        "frameworks": strict.list_of(strict.text),
        **dict.fromkeys(("externalFrameworks", "podOptions", "labelKeysToCopy"), strict.anything),
    }
)
_PROCESS: Final = (
    *("webhook", "metrics", "health", "pprofBindAddress", "controller", "clientConnection", "internalCertManagement"),
    *("tls", "visibilityServer", "queueVisibility"),
)
"""Settings of Kueue's own process, which change no decision about workloads."""
_UNSUPPORTED: Final = ("multiKueue", "fairSharing", "admissionFairSharing", "resources", "objectRetentionPolicies")
_DOCUMENT: Final = strict.record(
    {
        **dict.fromkeys(("apiVersion", "kind", "namespace"), strict.text),
        "manageJobsWithoutQueueName": strict.boolean,
        "managedJobsNamespaceSelector": LABEL_SELECTOR,
        "waitForPodsReady": _PODS_READY,
        "integrations": _INTEGRATIONS,
        "featureGates": strict.mapping,
        "leaderElection": strict.mapping,
        **dict.fromkeys((*_PROCESS, *_UNSUPPORTED), strict.anything),
    }
)


class KueueConfiguration(msgspec.Struct, frozen=True):
    """``remarks``: fields that have no effect."""

    configuration: Configuration
    remarks: tuple[str, ...] = ()


def parse(value: Any) -> KueueConfiguration | FieldErrors:
    """``value``: the decoded YAML or JSON."""
    errors: FieldErrors = []
    given: Object = _DOCUMENT(value, "", errors) or {}
    errors += validate_header(given, VERSIONS, KIND)
    is_old = given.get("apiVersion") == _OLD
    remarks = [f"{field}: concerns Kueue's own process and has no effect here" for field in _PROCESS if field in given]
    errors += _validate_unsupported(given)
    frameworks = _frameworks(given.get("integrations", {}), errors)
    pods_ready = _pods_ready(given.get("waitForPodsReady"), errors, is_old=is_old)
    selector = given.get("managedJobsNamespaceSelector")
    if selector is not None:
        errors += validate_selector(selector, "managedJobsNamespaceSelector")
    gates = _gates(given.get("featureGates", {}), errors)
    election = given.get("leaderElection", {})
    leader_elect = election.get("leaderElect")
    if leader_elect is not None:
        strict.boolean(leader_elect, "leaderElection.leaderElect", errors)
    remarks += [f"leaderElection.{each}: Headgate has its own Leases" for each in election if each != "leaderElect"]
    if errors:
        return errors
    jobs = JobsSection(
        manage_jobs_without_queue_name=given.get("manageJobsWithoutQueueName"),
        managed_jobs_namespace_selector=_default_selector(given.get("namespace")) if selector is None else selector,
        frameworks=frameworks,
        wait_for_pods_ready=pods_ready,
    )
    configuration = Configuration(
        feature_gates=gates or None, leader_election=LeaderElectionSection(leader_elect=leader_elect), jobs=jobs
    )
    return KueueConfiguration(configuration, tuple(remarks))


def _validate_unsupported(given: Mapping[str, Any]) -> FieldErrors:
    return [
        forbidden(field, "not supported: remove it, because workloads would be treated in another way than it says")
        for field in _UNSUPPORTED
        if given.get(field) and given[field] != {"enable": False}
    ]


def _frameworks(given: Mapping[str, Any], errors: FieldErrors) -> tuple[str, ...]:
    path = "integrations.frameworks"
    listed = [each for each in given.get("frameworks") or () if each is not None] or [BATCH_JOB]
    errors += validate_names(listed, path, FRAMEWORKS)
    if POD not in listed and not set(POD_FRAMEWORKS).isdisjoint(listed):
        listed.append(POD)  # as Kueue does: the pods of these kinds wait in queues
    errors += [
        forbidden(f"integrations.{field}", "not supported: remove it")
        for field in ("externalFrameworks", "podOptions", "labelKeysToCopy")
        if given.get(field)
    ]
    return tuple(each for each in FRAMEWORKS if each in listed)


def _gates(given: Mapping[str, Any], errors: FieldErrors) -> dict[str, bool]:
    before = len(errors)
    for name, value in given.items():
        strict.boolean(value, f"featureGates.{name}", errors)
    if len(errors) == before:
        errors += validate_feature_gates(given, "featureGates")
    return dict(given)


def _pods_ready(given: Object | None, errors: FieldErrors, *, is_old: bool) -> PodsReadySection | None:
    """In v1beta1 it is off unless ``enable`` is true, and then blocks admission by default. In v1beta2 it is always on
    and does not block."""
    path = "waitForPodsReady"
    if is_old and not (given or {}).get("enable"):
        return None
    given = given or {}
    if not is_old and "enable" in given:
        errors.append(forbidden(f"{path}.enable", f"unknown field in {VERSIONS[1]}: without the section it is on, too"))
    if given.get("blockAdmission", is_old):
        errors.append(forbidden(f"{path}.blockAdmission", "not supported: set it to false"))
    timeout = _duration(given.get("timeout"), f"{path}.timeout", errors) or _DEFAULT_TIMEOUT
    recovery = _duration(given.get("recoveryTimeout"), f"{path}.recoveryTimeout", errors)
    requeuing = given.get("requeuingStrategy", {})
    timestamp = requeuing.get("timestamp", "Eviction")
    if timestamp not in ("Eviction", "Creation"):
        errors.append(invalid(f"{path}.requeuingStrategy.timestamp", timestamp, "must be Eviction or Creation"))
    for field in ("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds"):
        if requeuing.get(field, 0) < 0:
            errors.append(invalid(f"{path}.requeuingStrategy.{field}", requeuing[field], "must be at least 0"))
    return PodsReadySection(
        timeout=timeout,
        recovery_timeout=recovery,
        requeuing_strategy=RequeuingSection(
            timestamp=timestamp,
            backoff_limit_count=requeuing.get("backoffLimitCount"),
            backoff_base_seconds=requeuing.get("backoffBaseSeconds"),
            backoff_max_seconds=requeuing.get("backoffMaxSeconds"),
        ),
    )


def _duration(value: Any, path: str, errors: FieldErrors) -> str | None:
    """A duration as text; Kueue accepts nanoseconds, too."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = format_duration(value)
    if strict.text(value, path, errors) is None:
        return None
    found = validate_duration(value, path, may_be_zero=True)
    errors += found
    return None if found else str(value)


def _default_selector(namespace: str | None) -> Object:
    """All namespaces except the system's, Kueue's and Headgate's own."""
    names = sorted({"kube-system", "headgate-system", namespace or _NAMESPACE})
    return {"matchExpressions": [{"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": names}]}
