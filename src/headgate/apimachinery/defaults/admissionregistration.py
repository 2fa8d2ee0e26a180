"""Defaults of webhook configurations and admission policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

_RULE_LISTS: Final = ("resourceRules", "excludeResourceRules")


def _default_rules(rules: Iterable[dict[str, Any]]) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def _default_webhooks(obj: dict[str, Any], extra: dict[str, Any]) -> None:
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for name, value in extra.items():
            webhook.setdefault(name, value)
        service = webhook.get("clientConfig", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
        _default_rules(webhook.get("rules") or ())


def default_validating_webhook_configuration(obj: dict[str, Any]) -> None:
    _default_webhooks(obj, {})


def default_mutating_webhook_configuration(obj: dict[str, Any]) -> None:
    _default_webhooks(obj, {"reinvocationPolicy": "Never"})


def _default_match_resources(match: dict[str, Any] | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for name in _RULE_LISTS:
        _default_rules(match.get(name) or ())


def default_validating_admission_policy(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _default_match_resources(spec.get("matchConstraints"))


def default_validating_admission_policy_binding(obj: dict[str, Any]) -> None:
    _default_match_resources(obj.setdefault("spec", {}).get("matchResources"))
