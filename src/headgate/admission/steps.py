"""The table of admission steps: path, matching writes, and handler of each.

The embedded server calls the handlers directly (``cli/embedded/admission.py``); the webhook server serves them by path
and makes its webhook configurations from the same table (``runtime/webhooks/``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from headgate.admission import (
    gate_policies,
    gated_kinds,
    jobs,
    kueue_pods,
    match_conditions,
    pod_groups,
    pod_owners,
    pods,
    queues,
    quota_kinds,
)
from headgate.admission.admission_review import AdmissionRequest, AdmissionResponse
from headgate.admission.match_conditions import MatchExpression, every_object
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS, JOB
from headgate.jobs.kinds.framework_kinds import FRAMEWORK_KINDS
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.settings import POD
from headgate.kube.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    APIResource,
)
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

_BINDINGS: Final = APIResource("", "v1", "bindings", namespaced=True)
"""The legacy endpoint to bind a pod."""

Operation = Literal["CREATE", "UPDATE", "DELETE"]
_CREATE_OR_UPDATE: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")

AdmissionHandler = Callable[[AdmissionRequest, AdmissionSettings, ClusterView], AdmissionResponse]


class AdmissionStep(msgspec.Struct, frozen=True):
    """A handler and the writes that it handles. ``path``: the URL path of the webhook; empty for a step that only the
    embedded server runs, because as a webhook it would be called for every status write and every binding.
    ``needs_queue_allocation_gate``: the step is skipped while the feature gate QueueAllocationGate is off.
    ``for_kueue_queues``: the step runs only in installations in which jobs use Kueue's queues, for managed namespaces.
    ``fails_closed``: while the webhook cannot be called, the API server rejects objects that name a queue: a pod that
    was created without this step cannot be gated later, and a job would run outside its quota until it is suspended.
    ``matches``: the objects that an API server asks about. ``matches_without_queue``: the same for objects that name no
    queue, if the step fails closed. ``framework``: the step is for this integration of ``JobSettings``.
    ``needs_gate_ownership``: the step is skipped while the feature gate GateOwnership is off. It fails closed for the
    objects that it matches, and fails open on API servers without ``matchConditions``, which ask about all objects."""

    name: str
    path: str
    resource: APIResource
    operations: tuple[Operation, ...]
    handle: AdmissionHandler
    subresource: str = ""
    mutates: bool = False
    needs_queue_allocation_gate: bool = False
    for_kueue_queues: bool = False
    fails_closed: bool = False
    matches: MatchExpression = every_object
    matches_without_queue: MatchExpression = every_object
    framework: str = ""
    needs_gate_ownership: bool = False


def _template_step(resource: APIResource, path: tuple[str, ...] = gate_policies.TEMPLATE) -> AdmissionStep:
    """The step of GatePolicies for a kind with a pod template. ``path``: of the spec of the pods."""
    plural = ".".join(filter(None, (resource.plural, resource.group)))
    return AdmissionStep(
        name=f"gate-policies.{plural}.headgate.dev",
        path=f"/gatepolicies/{plural}/validate",
        resource=resource,
        operations=_CREATE_OR_UPDATE,
        handle=functools.partial(gate_policies.review_template, path),
        matches=functools.partial(match_conditions.template_with_owned_gate, path),
        needs_gate_ownership=True,
    )


def _quota_step(resource: APIResource, subresource: str = "") -> AdmissionStep:
    """The validation of one of Kueue's kinds."""
    words = [resource.plural, *([subresource] if subresource else [])]
    return AdmissionStep(
        name=f"{'.'.join(reversed(words))}.kueue.headgate.dev",
        path=f"/kueue/{'/'.join(words)}/validate",
        resource=resource,
        subresource=subresource,
        operations=("UPDATE",) if subresource else _CREATE_OR_UPDATE,
        handle=quota_kinds.validate,
    )


def _job_steps(
    resource: APIResource,
    mutate: AdmissionHandler,
    validate: AdmissionHandler,
    *,
    mutates_updates: bool = False,
    without_queue: MatchExpression,
    validated: MatchExpression = every_object,
    framework: str = "",
) -> tuple[AdmissionStep, AdmissionStep]:
    """The mutating and the validating step of a kind that uses Kueue's queues. ``mutates_updates``: the mutating step
    also runs for updates, not only for new objects. ``without_queue``: the objects without a queue name that the
    mutating step handles. ``validated``: the objects that the validating step handles."""
    plural_with_group = ".".join(filter(None, (resource.plural, resource.group)))
    name, path = f"{plural_with_group}.jobs.headgate.dev", f"/jobs/{plural_with_group}"
    return (
        AdmissionStep(
            name=f"wait.{name}",
            path=f"{path}/mutate",
            resource=resource,
            operations=_CREATE_OR_UPDATE if mutates_updates else ("CREATE",),
            handle=mutate,
            mutates=True,
            for_kueue_queues=True,
            fails_closed=True,
            matches=match_conditions.is_not_terminating if mutates_updates else every_object,
            matches_without_queue=without_queue,
            framework=framework,
        ),
        AdmissionStep(
            name=name,
            path=f"{path}/validate",
            resource=resource,
            operations=_CREATE_OR_UPDATE,
            handle=validate,
            for_kueue_queues=True,
            matches=validated,
            framework=framework,
        ),
    )


def _pod_owner_steps(resource: APIResource, owner_kind: str) -> tuple[AdmissionStep, AdmissionStep]:
    """The steps of Deployments, ReplicaSets or StatefulSets. ``owner_kind``: a constant of ``pod_owners.py``."""
    return _job_steps(
        resource,
        functools.partial(pod_owners.put_queue_in_template, owner_kind),
        functools.partial(pod_owners.validate, owner_kind),
        mutates_updates=True,
        without_queue=match_conditions.pod_owner_without_queue,
        validated=match_conditions.owner_with_kueue_metadata,
        framework=pod_owners.STATEFUL_SET if owner_kind == pod_owners.STATEFUL_SET else pod_owners.DEPLOYMENT,
    )


def _job_kind_steps(kinds: Iterable[JobKind]) -> tuple[AdmissionStep, ...]:
    return tuple(
        step
        for kind in kinds
        for step in _job_steps(
            kind.resource,
            functools.partial(jobs.suspend_new_job if kind.gate is None else gated_kinds.mark_templates, kind),
            functools.partial(jobs.validate, kind),
            mutates_updates=kind.gate is not None,
            without_queue=match_conditions.job_without_queue
            if kind.gate is None
            else match_conditions.pod_owner_without_queue,
            # The pod templates of other kinds may be at any path.
            validated=match_conditions.owner_with_kueue_metadata if kind.resource == JOB.resource else every_object,
        )
    )


STEPS: Final = (
    AdmissionStep(
        name="gate.pods.headgate.dev",
        path="/pods/mutate",
        resource=PODS,
        operations=("CREATE",),
        handle=pods.gate_new_pod,
        mutates=True,
        needs_queue_allocation_gate=True,
        matches=match_conditions.new_pod_of_queue_gate,
    ),
    AdmissionStep(
        name="stamp.pods.headgate.dev",
        path="/pods/validate",
        resource=PODS,
        operations=("UPDATE",),
        handle=pods.reject_stamp_change,
        needs_queue_allocation_gate=True,
        matches=match_conditions.changed_stamp,
    ),
    AdmissionStep(
        name="resize.pods.headgate.dev",
        path="/pods/resize/validate",
        resource=PODS,
        subresource="resize",
        operations=("UPDATE",),
        handle=pods.validate_resize,
        matches=match_conditions.resize_of_scheduled_pod,
    ),
    AdmissionStep(
        name="stamp.pods.headgate.dev",
        path="",
        resource=PODS,
        subresource="status",
        operations=("UPDATE",),
        handle=pods.reject_stamp_change,
        needs_queue_allocation_gate=True,
    ),
    AdmissionStep(
        name="stamp.pods.headgate.dev",
        path="",
        resource=PODS,
        subresource="binding",
        operations=("CREATE",),
        handle=pods.reject_binding_with_stamp,
        needs_queue_allocation_gate=True,
    ),
    AdmissionStep(
        name="stamp.pods.headgate.dev",
        path="",
        resource=_BINDINGS,
        operations=("CREATE",),
        handle=pods.reject_binding_with_stamp,
        needs_queue_allocation_gate=True,
    ),
    AdmissionStep(
        name="queues.headgate.dev",
        path="/queues/validate",
        resource=QUEUES,
        operations=("CREATE", "UPDATE", "DELETE"),
        handle=queues.validate_queue,
    ),
    AdmissionStep(
        name="podgroups.headgate.dev",
        path="/podgroups/validate",
        resource=POD_GROUPS,
        operations=_CREATE_OR_UPDATE,
        handle=pod_groups.validate_group,
    ),
    *map(_quota_step, (RESOURCE_FLAVORS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, ADMISSION_CHECKS)),
    _quota_step(WORKLOADS, "status"),
    *_job_steps(
        PODS,
        kueue_pods.gate_new_pod,
        kueue_pods.validate,
        without_queue=match_conditions.pod_without_queue,
        validated=match_conditions.pod_with_kueue_metadata,
        framework=POD,
    ),
    *_pod_owner_steps(DEPLOYMENTS, pod_owners.DEPLOYMENT),
    *_pod_owner_steps(REPLICA_SETS, pod_owners.REPLICA_SET),
    *_pod_owner_steps(STATEFUL_SETS, pod_owners.STATEFUL_SET),
    AdmissionStep(
        name="scale.statefulsets.apps.jobs.headgate.dev",
        path="/jobs/statefulsets.apps/scale/validate",
        resource=STATEFUL_SETS,
        subresource="scale",
        operations=("UPDATE",),
        handle=pod_owners.validate_scale,
        for_kueue_queues=True,
        framework=pod_owners.STATEFUL_SET,
    ),
    AdmissionStep(
        name="gate-policies.pods.headgate.dev",
        path="/gatepolicies/pods/validate",
        resource=PODS,
        operations=_CREATE_OR_UPDATE,
        handle=gate_policies.review_pod,
        matches=match_conditions.pod_with_owned_gate,
        needs_gate_ownership=True,
    ),
    *map(
        _template_step,
        (JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS),
    ),
    _template_step(CRON_JOBS, gate_policies.CRON_JOB_TEMPLATE),
)
"""All steps except those of job kinds, which depend on the settings of the installation."""


def all_steps(settings: AdmissionSettings) -> tuple[AdmissionStep, ...]:
    """All steps, including those that the settings disable. The webhook server serves all of them, because another
    replica of it may run with other settings and register them. Only the kinds in a file of that one are not known."""
    managed = {kind.resource for kind in settings.jobs.kinds}
    unmanaged = (kind for kind in (*BUILTIN_KINDS, *FRAMEWORK_KINDS) if kind.resource not in managed)
    return STEPS + _job_kind_steps((*settings.jobs.kinds, *unmanaged))


def enabled_steps(settings: AdmissionSettings) -> tuple[AdmissionStep, ...]:
    """The steps that the settings enable."""
    return tuple(
        step
        for step in STEPS + _job_kind_steps(settings.jobs.kinds)
        if (settings.queue_gate_enabled or not step.needs_queue_allocation_gate)
        and (settings.suspends_jobs or not step.for_kueue_queues)
        and (not step.framework or step.framework in settings.jobs.frameworks)
        and (settings.features.gate_ownership or not step.needs_gate_ownership)
    )
