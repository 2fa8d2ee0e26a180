"""The two webhook configurations that point an API server at us, and whether those on the cluster still say the same.

Pure. Every field is written out, defaults too, so that equal means equal. They fail open: an API server that does not
reach us creates pods as they are, and the scheduler holds what opted in all the same (``capacity/``). Only what names
one of Kueue's queues, and could not be held any more once it is there, is not created meanwhile. Who writes them is
``keeper.py``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final, Literal

from headgate.admission.policy import Policy
from headgate.admission.steps import Step, wanted
from headgate.control.webhooks.target import Target
from headgate.jobs.names import QUEUE_NAME
from headgate.kube.labels import Requirement
from headgate.kube.resource import PODS, Resource

Object = dict[str, Any]

NAME: Final = "headgate"
TIMEOUT_S: Final = 5
_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = Resource(_GROUP, "v1", "mutatingwebhookconfigurations", namespaced=False)
VALIDATING: Final = Resource(_GROUP, "v1", "validatingwebhookconfigurations", namespaced=False)
_KINDS: Final = {MUTATING: "MutatingWebhookConfiguration", VALIDATING: "ValidatingWebhookConfiguration"}
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


def desired(resource: Resource, policy: Policy, target: Target, ca_bundle: bytes) -> list[Object]:
    """The webhooks of one configuration."""
    bundle = base64.b64encode(ca_bundle).decode()
    steps = [step for step in wanted(policy) if step.path and step.mutates == (resource == MUTATING)]
    return [
        {**webhook, **each}
        for step in steps
        for webhook in (_webhook(step, policy, target.client_config(step.path, bundle)),)
        for each in _by_weight(step, policy)
    ]


def is_right(found: Object, webhooks: list[Object]) -> bool:
    return (found.get("webhooks") or []) == webhooks


def made(resource: Resource, webhooks: list[Object]) -> Object:
    metadata = {"name": NAME, "labels": {"app.kubernetes.io/managed-by": NAME}}
    return {
        "apiVersion": f"{resource.group}/{resource.version}",
        "kind": _KINDS[resource],
        "metadata": metadata,
        "webhooks": webhooks,
    }


def repaired(found: Object, webhooks: list[Object]) -> Object:
    """The configuration as it was found, revision included, with our webhooks in it and nobody else's."""
    return {**found, "webhooks": webhooks}


def _webhook(step: Step, policy: Policy, client: Object) -> Object:
    reinvocation: dict[str, Literal["IfNeeded"]] = {"reinvocationPolicy": "IfNeeded"} if step.mutates else {}
    return {
        "name": step.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespaces(step, policy),
        "objectSelector": {},
        "rules": [
            {
                "apiGroups": [step.resource.group],
                "apiVersions": [step.resource.version],
                "operations": list(step.operations),
                "resources": ["/".join(filter(None, (step.resource.plural, step.subresource)))],
                "scope": "*",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        **reinvocation,
    }


def _by_weight(step: Step, policy: Policy) -> Iterator[Object]:
    """Where a pod that names a queue would run around it for good, it is rather not created; those that name none are
    never kept from running by an outage, unless all have to wait."""
    if not step.cannot_wait:
        yield {}
        return
    for operator, name, fails in (
        ("Exists", step.name, True),
        ("DoesNotExist", f"others.{step.name}", policy.jobs.manages_all),
    ):
        yield {
            "name": name,
            "failurePolicy": "Fail" if fails else "Ignore",
            "objectSelector": {"matchExpressions": [{"key": QUEUE_NAME, "operator": operator}]},
        }


def _namespaces(step: Step, policy: Policy) -> Object:
    if not step.keeps_jobs and step.resource != PODS:
        return {}
    left_out = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": sorted(policy.exempt)}
    chosen = policy.jobs.namespaces.requirements if step.keeps_jobs else ()
    return {"matchExpressions": [left_out, *filter(None, map(_expression, chosen))]}


def _expression(requirement: Requirement) -> Object | None:
    """None where a selector of objects has no word for it; then the answer alone goes by it."""
    operator = _OPERATORS.get(requirement.operator)
    if operator is None:
        return None
    values = {"values": sorted(requirement.values)} if operator.endswith("In") else {}
    return {"key": requirement.key, "operator": operator, **values}


_OPERATORS: Final = {
    **dict.fromkeys(("=", "==", "in"), "In"),
    **dict.fromkeys(("!=", "notin"), "NotIn"),
    "exists": "Exists",
    "!": "DoesNotExist",
}
