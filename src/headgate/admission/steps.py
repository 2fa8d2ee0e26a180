"""Every step of admission, once: where it stands on the wire, which writes it is asked about, and its answer.

The embedded server runs them as steps of its own (``cli/admission.py``), the webhook server serves them by path and
makes its configurations from the same rows (``control/webhooks/``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from headgate.admission import jobs, kueue_pods, pod_groups, pods, queues, quota_kinds, templates
from headgate.admission.policy import Policy, View
from headgate.admission.review import Answer, Request
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.jobs.kind import JobKind
from headgate.kube.resource import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

_BINDINGS: Final = Resource("", "v1", "bindings", namespaced=True)
"""The older way to bind a pod."""

Ask = Callable[[Request, Policy, View], Answer]


class Step(msgspec.Struct, frozen=True):
    """``path``: where a webhook is asked; empty for a step that only the embedded server takes, where it costs nothing.
    ``gates``: it belongs to the feature gate, and is not asked while that is off. ``keeps_jobs``: it is asked where
    jobs wait in Kueue's queues, and there in the namespaces of those. ``cannot_wait``: what it misses nobody can mend
    later, so what names a queue is not created while nobody answers."""

    name: str
    path: str
    mutates: bool
    resource: Resource
    subresource: str
    operations: tuple[Literal["CREATE", "UPDATE", "DELETE"], ...]
    gates: bool
    ask: Ask
    keeps_jobs: bool = False
    cannot_wait: bool = False


def _of_quota(resource: Resource, subresource: str = "") -> Step:
    """A rule of Kueue's kinds."""
    words = [resource.plural, *([subresource] if subresource else [])]
    name, path = f"{'.'.join(reversed(words))}.kueue.headgate.dev", f"/kueue/{'/'.join(words)}/validate"
    operations: tuple[Literal["CREATE", "UPDATE"], ...] = ("UPDATE",) if subresource else ("CREATE", "UPDATE")
    return Step(name, path, False, resource, subresource, operations, False, quota_kinds.validate)


def _of_jobs(
    resource: Resource, mutating: Ask, validating: Ask, *, on_update: bool = False, cannot_wait: bool = False
) -> tuple[Step, Step]:
    """What waits in Kueue's queues, and its rules."""
    word = ".".join(filter(None, (resource.plural, resource.group)))
    name, path = f"{word}.jobs.headgate.dev", f"/jobs/{word}"
    first: tuple[Literal["CREATE", "UPDATE"], ...] = ("CREATE", "UPDATE") if on_update else ("CREATE",)
    return (
        Step(f"wait.{name}", f"{path}/mutate", True, resource, "", first, False, mutating, True, cannot_wait),
        Step(name, f"{path}/validate", False, resource, "", ("CREATE", "UPDATE"), False, validating, True),
    )


def _of_templates(resource: Resource, parent: str) -> tuple[Step, Step]:
    mark, validate = (functools.partial(each, parent) for each in (templates.mark, templates.validate))
    return _of_jobs(resource, mark, validate, on_update=True, cannot_wait=True)


def _of_kinds(kinds: Iterable[JobKind]) -> tuple[Step, ...]:
    return tuple(
        step
        for kind in kinds
        for step in _of_jobs(
            kind.resource, functools.partial(jobs.suspend_new, kind), functools.partial(jobs.validate, kind)
        )
    )


STEPS: Final = (
    Step("gate.pods.headgate.dev", "/pods/mutate", True, PODS, "", ("CREATE",), True, pods.gate_new),
    Step("stamp.pods.headgate.dev", "/pods/validate", False, PODS, "", ("UPDATE",), True, pods.guard_stamp),
    Step(
        "resize.pods.headgate.dev",
        "/pods/resize/validate",
        False,
        PODS,
        "resize",
        ("UPDATE",),
        False,
        pods.validate_resize,
    ),
    Step("stamp.pods.headgate.dev", "", False, PODS, "status", ("UPDATE",), True, pods.guard_stamp),
    Step("stamp.pods.headgate.dev", "", False, PODS, "binding", ("CREATE",), True, pods.guard_binding),
    Step("stamp.pods.headgate.dev", "", False, _BINDINGS, "", ("CREATE",), True, pods.guard_binding),
    Step(
        "queues.headgate.dev",
        "/queues/validate",
        False,
        QUEUES,
        "",
        ("CREATE", "UPDATE", "DELETE"),
        False,
        queues.validate_queue,
    ),
    Step(
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
    *_of_templates(DEPLOYMENTS, templates.DEPLOYMENT),
    *_of_templates(REPLICA_SETS, templates.REPLICA_SET),
    *_of_templates(STATEFUL_SETS, templates.STATEFUL_SET),
    Step(
        "scale.statefulsets.apps.jobs.headgate.dev",
        "/jobs/statefulsets.apps/scale/validate",
        False,
        STATEFUL_SETS,
        "scale",
        ("UPDATE",),
        False,
        templates.validate_scale,
        keeps_jobs=True,
    ),
)
"""Those of kinds of jobs aside: which there are an installation says."""


def every(policy: Policy) -> tuple[Step, ...]:
    """Also those that nobody is asked about: another replica may have been told otherwise."""
    return STEPS + _of_kinds(policy.jobs.kinds)


def wanted(policy: Policy) -> tuple[Step, ...]:
    """Those that there is something to ask about."""
    return tuple(
        step
        for step in every(policy)
        if (policy.gates or not step.gates) and (policy.suspends_jobs or not step.keeps_jobs)
    )
