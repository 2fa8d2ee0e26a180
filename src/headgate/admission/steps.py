"""The table of admission steps: path, matching writes, and handler of each.

The embedded server calls the handlers directly (``cli/embedded/admission.py``); the webhook server serves them by path
and makes its webhook configurations from the same table (``runtime/webhooks/``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from headgate.admission import jobs, kueue_pods, pod_groups, pod_owners, pods, queues, quota_kinds
from headgate.admission.admission_review import AdmissionRequest, AdmissionResponse
from headgate.admission.policy import AdmissionPolicy, ClusterView
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS, APIResource
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

AdmissionHandler = Callable[[AdmissionRequest, AdmissionPolicy, ClusterView], AdmissionResponse]


class AdmissionStep(msgspec.Struct, frozen=True):
    """``path``: of the webhook; empty for a step that only the embedded server runs, where it is free. ``gates``: it is
    skipped while the feature gate is off. ``keeps_jobs``: it runs only where jobs use Kueue's queues, and there in
    managed namespaces. ``cannot_wait``: an unhandled create cannot be corrected later, so objects that name a queue are
    rejected while the webhook is down."""

    name: str
    path: str
    mutates: bool
    resource: APIResource
    subresource: str
    operations: tuple[Literal["CREATE", "UPDATE", "DELETE"], ...]
    gates: bool
    handle: AdmissionHandler
    keeps_jobs: bool = False
    cannot_wait: bool = False


def _of_quota(resource: APIResource, subresource: str = "") -> AdmissionStep:
    """The validation of one of Kueue's kinds."""
    words = [resource.plural, *([subresource] if subresource else [])]
    name, path = f"{'.'.join(reversed(words))}.kueue.headgate.dev", f"/kueue/{'/'.join(words)}/validate"
    operations: tuple[Literal["CREATE", "UPDATE"], ...] = ("UPDATE",) if subresource else ("CREATE", "UPDATE")
    return AdmissionStep(name, path, False, resource, subresource, operations, False, quota_kinds.validate)


def _of_jobs(
    resource: APIResource,
    mutating: AdmissionHandler,
    validating: AdmissionHandler,
    *,
    on_update: bool = False,
    cannot_wait: bool = False,
) -> tuple[AdmissionStep, AdmissionStep]:
    """The mutating and the validating step of a kind that uses Kueue's queues."""
    word = ".".join(filter(None, (resource.plural, resource.group)))
    name, path = f"{word}.jobs.headgate.dev", f"/jobs/{word}"
    first: tuple[Literal["CREATE", "UPDATE"], ...] = ("CREATE", "UPDATE") if on_update else ("CREATE",)
    return (
        AdmissionStep(f"wait.{name}", f"{path}/mutate", True, resource, "", first, False, mutating, True, cannot_wait),
        AdmissionStep(name, f"{path}/validate", False, resource, "", ("CREATE", "UPDATE"), False, validating, True),
    )


def _of_templates(resource: APIResource, parent: str) -> tuple[AdmissionStep, AdmissionStep]:
    mark, validate = (functools.partial(each, parent) for each in (pod_owners.mark_template, pod_owners.validate))
    return _of_jobs(resource, mark, validate, on_update=True, cannot_wait=True)


def _of_kinds(kinds: Iterable[JobKind]) -> tuple[AdmissionStep, ...]:
    return tuple(
        step
        for kind in kinds
        for step in _of_jobs(
            kind.resource, functools.partial(jobs.suspend_new, kind), functools.partial(jobs.validate, kind)
        )
    )


STEPS: Final = (
    AdmissionStep("gate.pods.headgate.dev", "/pods/mutate", True, PODS, "", ("CREATE",), True, pods.gate_new),
    AdmissionStep("stamp.pods.headgate.dev", "/pods/validate", False, PODS, "", ("UPDATE",), True, pods.guard_stamp),
    AdmissionStep(
        "resize.pods.headgate.dev",
        "/pods/resize/validate",
        False,
        PODS,
        "resize",
        ("UPDATE",),
        False,
        pods.validate_resize,
    ),
    AdmissionStep("stamp.pods.headgate.dev", "", False, PODS, "status", ("UPDATE",), True, pods.guard_stamp),
    AdmissionStep("stamp.pods.headgate.dev", "", False, PODS, "binding", ("CREATE",), True, pods.guard_binding),
    AdmissionStep("stamp.pods.headgate.dev", "", False, _BINDINGS, "", ("CREATE",), True, pods.guard_binding),
    AdmissionStep(
        "queues.headgate.dev",
        "/queues/validate",
        False,
        QUEUES,
        "",
        ("CREATE", "UPDATE", "DELETE"),
        False,
        queues.validate_queue,
    ),
    AdmissionStep(
        "podgroups.headgate.dev",
        "/podgroups/validate",
        False,
        POD_GROUPS,
        "",
        ("CREATE", "UPDATE"),
        False,
        pod_groups.validate_group,
    ),
    *map(_of_quota, (RESOURCE_FLAVORS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, ADMISSION_CHECKS)),
    _of_quota(WORKLOADS, "status"),
    *_of_jobs(PODS, kueue_pods.gate_new, kueue_pods.validate, cannot_wait=True),
    *_of_templates(DEPLOYMENTS, pod_owners.DEPLOYMENT),
    *_of_templates(REPLICA_SETS, pod_owners.REPLICA_SET),
    *_of_templates(STATEFUL_SETS, pod_owners.STATEFUL_SET),
    AdmissionStep(
        "scale.statefulsets.apps.jobs.headgate.dev",
        "/jobs/statefulsets.apps/scale/validate",
        False,
        STATEFUL_SETS,
        "scale",
        ("UPDATE",),
        False,
        pod_owners.validate_scale,
        keeps_jobs=True,
    ),
)
"""All steps except those of job kinds, which depend on the installation."""


def all_steps(policy: AdmissionPolicy) -> tuple[AdmissionStep, ...]:
    """All steps, including disabled ones: another replica may have other settings."""
    return STEPS + _of_kinds(policy.jobs.kinds)


def enabled_steps(policy: AdmissionPolicy) -> tuple[AdmissionStep, ...]:
    """The steps that the policy enables."""
    return tuple(
        step
        for step in all_steps(policy)
        if (policy.gates or not step.gates) and (policy.suspends_jobs or not step.keeps_jobs)
    )
