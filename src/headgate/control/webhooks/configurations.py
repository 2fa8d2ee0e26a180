"""The two webhook configurations that point an API server at us, and whether those on the cluster still say the same.

Pure. Every field is written out, defaults too, so that equal means equal. They fail open: an API server that does not
reach us creates pods as they are, and the scheduler holds what opted in all the same (``capacity/``). Who writes them
is ``keeper.py``.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Literal

from headgate.admission.policy import Policy
from headgate.admission.steps import Step, wanted
from headgate.control.webhooks.target import Target
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
    return [_webhook(step, policy, target.client_config(step.path, bundle)) for step in steps]


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
        "namespaceSelector": _without(policy.exempt) if step.resource == PODS else {},
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


def _without(namespaces: frozenset[str]) -> Object:
    return {"matchExpressions": [{"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": sorted(namespaces)}]}
