"""Feature gates as values: which ones exist, their defaults, and how ``A=true,B=false`` is parsed.

A :class:`FeatureGates` is passed as an argument; nothing in Headgate looks a gate up in a global. Gates of Kubernetes
that have no effect in Headgate are not here: they behave as in Kubernetes v1.35 and cannot be switched. A gate is added
together with the code that it switches. Setting the same gate twice must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


class FeatureGates(msgspec.Struct, frozen=True, kw_only=True):
    """One field per gate. The defaults are those of kube-apiserver."""

    pod_scheduling_readiness: bool = True
    queue_allocation_gate: bool = True
    gang_atomic_ungate: bool = True
    reservation_lease: bool = False
    admission_gated_by: bool = True
    scheduling_gated_by: bool = False
    activation_labels: bool = False
    gate_ownership: bool = False
    pod_integration_fast_quota_release: bool = True
    start_after_terminating_pods: bool = True
    failure_recovery_policy: bool = False
    mutable_pod_resources_for_suspended_jobs: bool = False
    mutable_scheduling_directives_for_suspended_jobs: bool = False
    # Not a gate, but a flag with the same use: --allow-privileged.
    allow_privileged: bool = False


DEFAULTS: Final = FeatureGates()


class FeatureGate(msgspec.Struct, frozen=True):
    """``alias``: the name of the gate in other projects."""

    name: str
    field: str
    alias: str = ""


GATES: Final = (
    FeatureGate("PodSchedulingReadiness", "pod_scheduling_readiness"),
    FeatureGate("QueueAllocationGate", "queue_allocation_gate", alias="SchedulingGatesQueueAdmission"),
    FeatureGate("GangAtomicUngate", "gang_atomic_ungate"),
    FeatureGate("ReservationLease", "reservation_lease"),
    FeatureGate("AdmissionGatedBy", "admission_gated_by"),
    FeatureGate("SchedulingGatedBy", "scheduling_gated_by"),
    FeatureGate("ActivationLabels", "activation_labels"),
    FeatureGate("GateOwnership", "gate_ownership"),
    FeatureGate(
        "PodIntegrationFastQuotaRelease",
        "pod_integration_fast_quota_release",
        alias="FastQuotaReleaseInPodIntegration",
    ),
    FeatureGate("StartAfterTerminatingPods", "start_after_terminating_pods"),
    FeatureGate("FailureRecoveryPolicy", "failure_recovery_policy"),
    FeatureGate("MutablePodResourcesForSuspendedJobs", "mutable_pod_resources_for_suspended_jobs"),
    FeatureGate("MutableSchedulingDirectivesForSuspendedJobs", "mutable_scheduling_directives_for_suspended_jobs"),
)

_BY_NAME: Final = {name: gate for gate in GATES for name in (gate.name, gate.alias) if name}

# The spellings that Go's ParseBool accepts, as --feature-gates does.
BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def known_gate(name: str) -> FeatureGate | None:
    """The gate with this name or alias."""
    return _BY_NAME.get(name)


def with_gates(values: Mapping[str, bool], base: FeatureGates = DEFAULTS) -> FeatureGates | str:
    """``base`` with these known gates. A returned string is an error: a gate and its alias must agree."""
    fields: dict[str, bool] = {}
    for name, enabled in values.items():
        if fields.setdefault(_BY_NAME[name].field, enabled) is not enabled:
            return _disagreement(_BY_NAME[name])
    return msgspec.structs.replace(base, **fields)


def _disagreement(gate: FeatureGate) -> str:
    return f"feature gate {gate.name} is set both to true and to false"


def parse_feature_gates(text: str, base: FeatureGates = DEFAULTS) -> FeatureGates | str:
    """Parses ``A=true,B=false``; other gates are those of ``base``. A returned string is the error and how to fix
    it."""
    values: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = (part.strip() for part in item.partition("="))
        if not separator:
            return f"missing bool value for feature gate {name}: write {name}=true or {name}=false"
        gate = _BY_NAME.get(name)
        if gate is None:
            return f"unrecognized feature gate: {name}; known gates: {', '.join(each.name for each in GATES)}"
        enabled = BOOLEANS.get(value)
        if enabled is None:
            return f"invalid value of {name}={value}: must be true or false"
        if values.setdefault(gate.field, enabled) is not enabled:
            return _disagreement(gate)
    return msgspec.structs.replace(base, **values)


def contradiction(features: FeatureGates) -> str:
    """Why these gates contradict each other, and how to fix it; empty if they do not."""
    if features.queue_allocation_gate and not features.pod_scheduling_readiness:
        return (
            "QueueAllocationGate holds pods by scheduling gates, which PodSchedulingReadiness=false disables; "
            "leave PodSchedulingReadiness on, or add QueueAllocationGate=false"
        )
    return ""


def pod_integration_problem(features: FeatureGates) -> str:
    """Why pods cannot wait in Kueue's queues, and how to fix it; empty if they can."""
    if features.pod_scheduling_readiness:
        return ""
    return (
        "pods wait in Kueue's queues behind scheduling gates, which PodSchedulingReadiness=false disables; "
        "leave PodSchedulingReadiness on"
    )


def gate_values(features: FeatureGates) -> dict[str, bool]:
    """Every gate by its name, for messages and for ``/flagz``-like pages."""
    return {gate.name: getattr(features, gate.field) for gate in GATES}
