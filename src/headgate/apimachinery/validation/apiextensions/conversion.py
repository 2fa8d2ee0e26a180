"""Validation of ``spec.conversion``: none, or a webhook."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from headgate.apimachinery.validation.webhooks import validate_service, validate_url
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required

Object = dict[str, Any]

_STRATEGIES: Final = ("None", "Webhook")
_REVIEWS: Final = ("v1", "v1beta1")
_PATH: Final = "spec.conversion"
_CLIENT: Final = f"{_PATH}.webhookClientConfig"
_NOT_ALLOWED: Final = "should not be set when strategy is not set to Webhook"


def check_conversion(conversion: Object, *, preserves_unknown: bool, check_bundle: bool) -> FieldErrors:
    """``preserves_unknown``: the CustomResourceDefinition preserves unknown fields. ``check_bundle``: whether the CA
    bundle is validated."""
    strategy = conversion.get("strategy") or ""
    problems: FieldErrors = []
    if preserves_unknown and strategy != "None":
        text = "must be None if spec.preserveUnknownFields is true"
        problems.append(invalid(f"{_PATH}.strategy", strategy, text))
    if not strategy:
        problems.append(required(f"{_PATH}.strategy"))
    elif strategy not in _STRATEGIES:
        problems.append(not_supported(f"{_PATH}.strategy", strategy, _STRATEGIES))
    webhook = conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        if client is not None:
            problems.append(forbidden(_CLIENT, _NOT_ALLOWED))
        if reviews:
            problems.append(forbidden(f"{_PATH}.conversionReviewVersions", _NOT_ALLOWED))
        return problems
    if client is None:
        problems.append(required(_CLIENT, "required when strategy is set to Webhook"))
    else:
        problems += _check_client(client, check_bundle)
    return problems + _check_reviews(reviews, f"{_PATH}.conversionReviewVersions")


def _check_client(client: Object, check_bundle: bool) -> FieldErrors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        problems = [required(_CLIENT, "exactly one of url or service is required")]
    elif url is not None:
        problems = validate_url(url, f"{_CLIENT}.url")
    else:
        problems = validate_service(service or {}, f"{_CLIENT}.service")
    bundle = client.get("caBundle")
    if bundle and check_bundle and not has_certificate(bundle):
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        problems.append(invalid(f"{_CLIENT}.caBundle", bundle, text))
    return problems


def has_certificate(bundle: str) -> bool:
    """Whether the bundle contains the markers of a PEM certificate."""
    try:
        text = base64.b64decode(bundle)
    except (ValueError, binascii.Error):
        return False
    return b"-----BEGIN CERTIFICATE-----" in text and b"-----END CERTIFICATE-----" in text


def _check_reviews(versions: list[str], path: str) -> FieldErrors:
    if not versions:
        return [required(path)]
    problems: FieldErrors = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            problems.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        problems += [invalid(f"{path}[{index}]", version, each) for each in names.is_dns1035_label(version)]
    if seen.isdisjoint(_REVIEWS):
        problems.append(invalid(path, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    return problems
