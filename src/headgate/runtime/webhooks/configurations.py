"""The entries of this replica in the two webhook configurations, and how they are merged with those of others.

Pure. Every field is set, including defaults, so that entries can be compared. The failure policy is ``Ignore``: an API
server that cannot reach the webhooks creates pods unchanged, and the scheduler still holds the pods that opted in
(``capacity/``). Exceptions with the failure policy ``Fail``: jobs and pods that name one of Kueue's queues, and writes
that add or lift a gate that has a GatePolicy.

The name of an entry says to which component it belongs. A replica changes only the entries of components that it runs;
all other entries stay. If replicas with different settings run the same component, the one that started last writes its
entries; an annotation records its settings, and the other replicas leave these entries alone ([ADR
0030](docs/adr/0030-webhook-entries-have-owners.md)). ``registrar.py`` writes the configurations.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator
from typing import Any, Final, Literal

import msgspec

from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
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


Component = Literal["webhooks", "jobs"]
_SUFFIXES: Final[tuple[tuple[str, Component], ...]] = ((".jobs.headgate.dev", "jobs"), (".headgate.dev", "webhooks"))
"""How the names of the entries of each component end. The first that fits counts."""
_CONDITION: Final = "concerns-headgate"


class OwnEntries(msgspec.Struct, frozen=True):
    """The entries of one component in one configuration. ``settings``: a hash of all settings that affect them."""

    component: Component
    settings: str
    webhooks: list[Object]


def component_of(name: str) -> Component | None:
    """The component to which an entry belongs; None if it is not Headgate's."""
    return next((component for suffix, component in _SUFFIXES if name.endswith(suffix)), None)


def settings_annotation(component: Component) -> str:
    """The annotation of a configuration with the settings by which the entries of the component were made."""
    return f"headgate.dev/settings-of-{component}"


def own_entries(
    resource: APIResource,
    settings: AdmissionSettings,
    target: WebhookTarget,
    ca_bundle: bytes,
    scope: ReviewScope,
    *,
    with_conditions: bool,
) -> list[OwnEntries]:
    """The entries of this replica in a configuration, by component. ``with_conditions``: the API server knows
    ``matchConditions``."""
    components: tuple[Component, ...] = ("webhooks", "jobs") if settings.suspends_jobs else ("webhooks",)
    webhooks = desired_webhooks(resource, settings, target, ca_bundle, scope, with_conditions=with_conditions)
    constant = desired_webhooks(resource, settings, target, b"")
    return [
        OwnEntries(component, _settings_hash(_of_component(constant, component)), _of_component(webhooks, component))
        for component in components
    ]


def desired_webhooks(
    resource: APIResource,
    settings: AdmissionSettings,
    target: WebhookTarget,
    ca_bundle: bytes,
    scope: ReviewScope | None = None,
    *,
    with_conditions: bool = True,
) -> list[Object]:
    """All entries of this replica in a configuration."""
    bundle = base64.b64encode(ca_bundle).decode()
    steps = [step for step in enabled_steps(settings) if step.path and step.mutates == (resource == MUTATING)]
    return [
        {**webhook, **each, **(_conditions(expressions) if with_conditions else {})}
        for step in steps
        for webhook in (_webhook(step, settings, target.client_config(step.path, bundle)),)
        for each, expressions in _failure_policies(step, settings, scope or ReviewScope(), with_conditions)
    ]


class MergedConfiguration(msgspec.Struct, frozen=True):
    """``wanted``: the configuration to write; None if the present one is right. ``left_alone``: components whose
    entries a replica with other settings has written."""

    wanted: Object | None
    left_alone: tuple[Component, ...]


def merge_configuration(
    resource: APIResource, found: Object | None, own: list[OwnEntries], starting: Collection[Component]
) -> MergedConfiguration:
    """Merges the entries of this replica into the configuration. ``starting``: components whose entries this replica
    has not written since it started; it writes them also if another replica has other settings."""
    if found is None:
        return MergedConfiguration(_new_configuration(resource, own), ())
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    left_alone = tuple(
        each.component
        for each in own
        if each.component not in starting
        and annotations.get(settings_annotation(each.component)) not in (None, each.settings)
    )
    written = [each for each in own if each.component not in left_alone]
    components = {each.component for each in written}
    present = found.get("webhooks") or []
    kept = [each for each in present if component_of(str(each.get("name"))) not in components]
    wanted = {
        **found,
        "metadata": {**found["metadata"], "annotations": {**annotations, **_settings(written)}},
        "webhooks": _in_order([*(webhook for each in written for webhook in each.webhooks), *kept]),
    }
    is_right = wanted["webhooks"] == present and wanted["metadata"]["annotations"] == annotations
    return MergedConfiguration(None if is_right else wanted, left_alone)


def _new_configuration(resource: APIResource, own: list[OwnEntries]) -> Object:
    metadata = {"name": NAME, "labels": {"app.kubernetes.io/managed-by": NAME}, "annotations": _settings(own)}
    return {
        "apiVersion": f"{resource.group}/{resource.version}",
        "kind": _KINDS[resource],
        "metadata": metadata,
        "webhooks": [webhook for each in own for webhook in each.webhooks],
    }


def _in_order(webhooks: list[Object]) -> list[Object]:
    """Entries of the component ``webhooks``, then of ``jobs``, then others: all replicas write the same order."""
    order = {"webhooks": 0, "jobs": 1, None: 2}
    return sorted(webhooks, key=lambda each: order[component_of(str(each.get("name")))])


def _settings(entries: list[OwnEntries]) -> dict[str, str]:
    return {settings_annotation(each.component): each.settings for each in entries}


def _of_component(webhooks: list[Object], component: Component) -> list[Object]:
    return [each for each in webhooks if component_of(each["name"]) == component]


def _settings_hash(webhooks: list[Object]) -> str:
    return hashlib.sha256(msgspec.json.encode(webhooks, order="deterministic")).hexdigest()[:16]


def _conditions(expressions: list[str]) -> Object:
    if not expressions:
        return {}
    expression = expressions[0] if len(expressions) == 1 else " && ".join(f"({each})" for each in expressions)
    return {"matchConditions": [{"name": _CONDITION, "expression": expression}]}


def _webhook(step: AdmissionStep, settings: AdmissionSettings, client: Object) -> Object:
    reinvocation: dict[str, Literal["IfNeeded"]] = {"reinvocationPolicy": "IfNeeded"} if step.mutates else {}
    return {
        "name": step.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespaces(step, settings),
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


def _failure_policies(
    step: AdmissionStep, settings: AdmissionSettings, scope: ReviewScope, with_conditions: bool
) -> Iterator[tuple[Object, list[str]]]:
    """The entries of a step, each with its match conditions. A step that fails closed has two: ``Fail`` for objects
    that name a queue, and ``Ignore`` for the others, unless Headgate manages all jobs. A step of GatePolicies has
    ``Fail`` if its conditions select the objects with a gate that has a policy."""
    matches = step.matches(settings, scope)
    if step.needs_gate_ownership:
        yield {"failurePolicy": "Fail" if with_conditions else "Ignore"}, [matches]
        return
    if not step.fails_closed:
        yield {}, list(filter(None, [matches]))
        return
    others = step.matches_without_queue(settings, scope)
    for operator, name, fails, expressions in (
        ("Exists", step.name, True, [matches]),
        ("DoesNotExist", f"others.{step.name}", settings.jobs.manages_all, [matches, others]),
    ):
        selector = {"matchExpressions": [{"key": QUEUE_NAME, "operator": operator}]}
        failure_policy = "Fail" if fails else "Ignore"
        entry = {"name": name, "failurePolicy": failure_policy, "objectSelector": selector}
        yield entry, list(filter(None, expressions))


def _namespaces(step: AdmissionStep, settings: AdmissionSettings) -> Object:
    if not step.for_kueue_queues and not step.needs_gate_ownership and step.resource != PODS:
        return {}
    exempt = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": sorted(settings.exempt_namespaces)}
    requirements = settings.jobs.namespaces.requirements if step.for_kueue_queues else ()
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
