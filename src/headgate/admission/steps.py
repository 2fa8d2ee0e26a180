"""Every step of admission, once: where it stands on the wire, which writes it is asked about, and its answer.

The embedded server runs them as steps of its own (``cli/admission.py``), the webhook server serves them by path and
makes its configurations from the same rows (``control/webhooks/``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from headgate.admission import jobs, pod_groups, pods, queues, quota_kinds
from headgate.admission.policy import Policy, View
from headgate.admission.review import Answer, Request
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.kube.resource import JOBS, PODS, Resource
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
    ``gates``: it belongs to the feature gate, and is not asked while that is off."""

    name: str
    path: str
    mutates: bool
    resource: Resource
    subresource: str
    operations: tuple[Literal["CREATE", "UPDATE", "DELETE"], ...]
    gates: bool
    ask: Ask


def _of_quota(resource: Resource, subresource: str = "") -> Step:
    """A rule of Kueue's kinds."""
    words = [resource.plural, *([subresource] if subresource else [])]
    name, path = f"{'.'.join(reversed(words))}.kueue.headgate.dev", f"/kueue/{'/'.join(words)}/validate"
    operations: tuple[Literal["CREATE", "UPDATE"], ...] = ("UPDATE",) if subresource else ("CREATE", "UPDATE")
    return Step(name, path, False, resource, subresource, operations, False, quota_kinds.validate)


STEPS: Final = (
    Step("gate.pods.headgate.dev", "/pods/mutate", True, PODS, "", ("CREATE",), True, pods.gate_new),
    Step("stamp.pods.headgate.dev", "/pods/validate", False, PODS, "", ("UPDATE",), True, pods.guard_stamp),
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
    Step("suspend.jobs.headgate.dev", "", True, JOBS, "", ("CREATE",), False, jobs.suspend_new),
    Step("jobs.headgate.dev", "", False, JOBS, "", ("CREATE", "UPDATE"), False, jobs.validate),
    *map(_of_quota, (RESOURCE_FLAVORS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, ADMISSION_CHECKS)),
    _of_quota(WORKLOADS, "status"),
)


def wanted(policy: Policy) -> tuple[Step, ...]:
    """Those that there is something to ask about."""
    return tuple(step for step in STEPS if policy.gates or not step.gates)
