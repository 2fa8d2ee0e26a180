"""One webhook of a configuration, compiled: its rules, its address, and its failure policy.

A configuration is stored and validated like any object (``apimachinery/validation/webhooks.py``);
:func:`compile_webhooks` reads it once per change. ``index.py`` finds the webhooks that match a write.
"""

from __future__ import annotations

import base64
import binascii
from posixpath import normpath
from typing import Any, Final, Literal, NamedTuple

import msgspec

from headgate.kube import labels

Object = dict[str, Any]
Phase = Literal["mutating", "validating"]

RESOURCES: Final[dict[Phase, str]] = {
    "mutating": "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validating": "validatingwebhookconfigurations.admissionregistration.k8s.io",
}
REVIEW_VERSIONS: Final = ("v1", "v1beta1")

ANY: Final = "*"
_NO_SIDE_EFFECTS: Final = frozenset({"None", "NoneOnDryRun"})
_DEFAULT_TIMEOUT_S: Final = 10


def unsupported(configuration: Object) -> str:
    """The error for a field that this server does not evaluate; empty if there is none. It is refused, because a
    webhook without its conditions would match more writes."""
    for i, hook in enumerate(configuration.get("webhooks") or ()):
        if hook.get("matchConditions"):
            text = "the embedded API server evaluates no CEL; narrow the webhook by rules and selectors instead"
            return f"webhooks[{i}].matchConditions: {text}"
    return ""


class WebhookRuleTarget(NamedTuple):
    """The endpoint of a write in the terms of a rule. ``namespaced``: the object is in a namespace."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    namespaced: bool


class WebhookRule(msgspec.Struct, frozen=True):
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # plural and subresource
    scope: str

    def matches(self, endpoint: WebhookRuleTarget) -> bool:
        if self.scope != ANY and (self.scope == "Namespaced") != endpoint.namespaced:
            return False
        wanted = (
            (self.operations, endpoint.operation),
            (self.groups, endpoint.group),
            (self.versions, endpoint.version),
        )
        if not all(ANY in allowed or actual in allowed for allowed, actual in wanted):
            return False
        return any(
            resource in (ANY, endpoint.resource) and subresource in (ANY, endpoint.subresource)
            for resource, subresource in self.resources
        )


class ServiceReference(msgspec.Struct, frozen=True):
    """An address inside the cluster."""

    namespace: str
    name: str


class AdmissionWebhook(msgspec.Struct, frozen=True):
    """``url`` has no query yet. ``review_version`` is empty if the webhook supports no known version."""

    key: str  # unique, also among webhooks of the same name
    name: str
    rules: tuple[WebhookRule, ...]
    url: str
    service: ServiceReference | None
    ca_bundle: bytes
    equivalent: bool  # matchPolicy Equivalent: rules also match other versions of the resource
    namespaces: labels.Selector
    objects: labels.Selector
    timeout_s: int
    ignores_failure: bool
    reinvoked: bool  # reinvocationPolicy IfNeeded
    dry_runs: bool  # has no side effects, so that it may be called in a dry run
    review_version: str


def compile_webhooks(configuration: Object) -> tuple[AdmissionWebhook, ...]:
    name = configuration["metadata"]["name"]
    hooks = configuration.get("webhooks") or ()
    return tuple(_compile(f"{name}/{hook.get('name', '')}/{i}", hook) for i, hook in enumerate(hooks))


def _compile(key: str, hook: Object) -> AdmissionWebhook:
    client = hook.get("clientConfig") or {}
    service = client.get("service")
    return AdmissionWebhook(
        key=key,
        name=hook.get("name", ""),
        rules=tuple(_rule(rule) for rule in hook.get("rules") or ()),
        url=service_url(service) if service else clean_url(client.get("url") or ""),
        service=ServiceReference(service.get("namespace", ""), service.get("name", "")) if service else None,
        ca_bundle=decode_bundle(client.get("caBundle") or ""),
        equivalent=hook.get("matchPolicy", "Equivalent") == "Equivalent",
        namespaces=labels.from_label_selector(hook.get("namespaceSelector") or {}),
        objects=labels.from_label_selector(hook.get("objectSelector") or {}),
        timeout_s=hook.get("timeoutSeconds", _DEFAULT_TIMEOUT_S),
        ignores_failure=hook.get("failurePolicy") == "Ignore",
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        dry_runs=hook.get("sideEffects") in _NO_SIDE_EFFECTS,
        review_version=next((v for v in hook.get("admissionReviewVersions") or () if v in REVIEW_VERSIONS), ""),
    )


def _rule(rule: Object) -> WebhookRule:
    resources = []
    for text in rule.get("resources") or ():
        resource, _, subresource = text.partition("/")
        resources.append((resource, subresource))
    return WebhookRule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=tuple(resources),
        scope=rule.get("scope") or ANY,
    )


def service_url(service: Object) -> str:
    """The URL of a Service inside the cluster."""
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc:{service.get('port', 443)}"
    return clean_url(f"https://{host}/{(service.get('path') or '').removeprefix('/')}")


def clean_url(url: str) -> str:
    """The URL as client-go writes it: no empty path segment, no dots, no slash at the end."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}{normpath('/' + path.lstrip('/'))}"


def decode_bundle(text: str) -> bytes:
    """Decodes the base64 of a ``caBundle``."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
