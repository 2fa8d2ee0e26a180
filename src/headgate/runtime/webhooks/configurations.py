"""The two webhook configurations of this server, and whether those on the cluster are equal to them.

Pure. Every field is set, including defaults, so that configurations can be compared. They fail open: an API server that
cannot reach the webhooks creates pods unchanged, and the scheduler still holds the pods that opted in (``capacity/``).
Only objects that name one of Kueue's queues, and could not be held after their creation, are refused meanwhile.
``registrar.py`` writes them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final, Literal

from headgate.admission.policy import AdmissionPolicy
from headgate.admission.steps import AdmissionStep, enabled_steps
from headgate.jobs.names import QUEUE_NAME
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.labels import Requirement
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

NAME: Final = "headgate"
TIMEOUT_S: Final = 5
_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = APIResource(_GROUP, "v1", "mutatingwebhookconfigurations", namespaced=False)
VALIDATING: Final = APIResource(_GROUP, "v1", "validatingwebhookconfigurations", namespaced=False)
_KINDS: Final = {MUTATING: "MutatingWebhookConfiguration", VALIDATING: "ValidatingWebhookConfiguration"}
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


def desired_webhooks(
    resource: APIResource, policy: AdmissionPolicy, target: WebhookTarget, ca_bundle: bytes
) -> list[Object]:
    """The webhooks of one configuration."""
    bundle = base64.b64encode(ca_bundle).decode()
    steps = [step for step in enabled_steps(policy) if step.path and step.mutates == (resource == MUTATING)]
    return [
        {**webhook, **each}
        for step in steps
        for webhook in (_webhook(step, policy, target.client_config(step.path, bundle)),)
        for each in _failure_policies(step, policy)
    ]


def is_up_to_date(found: Object, webhooks: list[Object]) -> bool:
    return (found.get("webhooks") or []) == webhooks


def new_configuration(resource: APIResource, webhooks: list[Object]) -> Object:
    metadata = {"name": NAME, "labels": {"app.kubernetes.io/managed-by": NAME}}
    return {
        "apiVersion": f"{resource.group}/{resource.version}",
        "kind": _KINDS[resource],
        "metadata": metadata,
        "webhooks": webhooks,
    }


def repaired_configuration(found: Object, webhooks: list[Object]) -> Object:
    """The existing configuration, with its revision and only Headgate's webhooks."""
    return {**found, "webhooks": webhooks}


def _webhook(step: AdmissionStep, policy: AdmissionPolicy, client: Object) -> Object:
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


def _failure_policies(step: AdmissionStep, policy: AdmissionPolicy) -> Iterator[Object]:
    """During an outage, an object that names a queue and could not be held later is refused. Other objects are created,
    unless all jobs are managed."""
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


def _namespaces(step: AdmissionStep, policy: AdmissionPolicy) -> Object:
    if not step.keeps_jobs and step.resource != PODS:
        return {}
    exempt = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": sorted(policy.exempt)}
    requirements = policy.jobs.namespaces.requirements if step.keeps_jobs else ()
    return {"matchExpressions": [exempt, *filter(None, map(_expression, requirements))]}


def _expression(requirement: Requirement) -> Object | None:
    """None if a label selector cannot express the requirement; then only the webhook's handler applies it."""
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
