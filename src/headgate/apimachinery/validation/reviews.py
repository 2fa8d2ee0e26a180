"""Validation of access reviews and of TokenRequests. Neither is stored.

``apiserver/verbs/access_reviews.py`` answers a review, ``apiserver/subresources/token.py`` a TokenRequest.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube.field_errors import FieldErrors, Verbatim, invalid, required
from headgate.kube.validation.labels import validate_operator, validate_requirement

Object = dict[str, Any]


def validate_self_review(review: Object) -> FieldErrors:
    """A SelfSubjectAccessReview."""
    return (
        _validate_attributes(review.get("spec") or {}) + _validate_selectors(review) + _validate_empty_metadata(review)
    )


def validate_review(review: Object) -> FieldErrors:
    """A SubjectAccessReview."""
    return _validate_subject_review(review) + _validate_empty_metadata(review)


def validate_local_review(review: Object) -> FieldErrors:
    """A LocalSubjectAccessReview: for one namespace, and only for resources."""
    errors = _validate_subject_review(review)
    metadata, spec = review["metadata"], review.get("spec") or {}
    if any(value for field, value in metadata.items() if field not in ("namespace", "managedFields")):
        errors.append(invalid("metadata", _printed(metadata), "must be empty except for namespace"))
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != metadata.get("namespace", ""):
        text = "must match metadata.namespace"
        errors.append(invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), text))
    if path is not None:
        errors.append(invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
    return errors


def _validate_subject_review(review: Object) -> FieldErrors:
    spec = review.get("spec") or {}
    errors = _validate_attributes(spec)
    if not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified"))
    return errors + _validate_selectors(review)


def _validate_attributes(spec: Object) -> FieldErrors:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", path, text)]
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, text)]
    return []


def _validate_empty_metadata(review: Object) -> FieldErrors:
    metadata = review["metadata"]
    if any(value for field, value in metadata.items() if field != "managedFields"):
        return [invalid("metadata", _printed(metadata), "must be empty")]
    return []


def _printed(metadata: Object) -> Verbatim:
    """The metadata with the fields in the order of an encoded object."""
    return Verbatim(msgspec.json.encode(metadata).decode())


def _validate_selectors(review: Object) -> FieldErrors:
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    path = "spec.resourceAttributes"
    errors = _validate_selector(attributes.get("fieldSelector"), f"{path}.fieldSelector")
    for i, each in enumerate((attributes.get("fieldSelector") or {}).get("requirements") or ()):
        field_path = f"{path}.fieldSelector.requirements[{i}]"
        if not each.get("key"):
            errors.append(required(f"{field_path}.key", "must be specified"))
        errors += validate_operator(each, field_path, any_operator=True)
    errors += _validate_selector(attributes.get("labelSelector"), f"{path}.labelSelector")
    for i, each in enumerate((attributes.get("labelSelector") or {}).get("requirements") or ()):
        errors += validate_requirement(each, f"{path}.labelSelector.requirements[{i}]", any_operator=True)
    return errors


def _validate_selector(selector: Object | None, path: str) -> FieldErrors:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements")
    if raw and requirements:
        return [invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements")]
    if not raw and not requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        return [required(f"{path}.requirements", text)]
    return []


_MIN_S: Final = 10 * 60
_MAX_S: Final = 1 << 32


def validate_token_request(obj: dict[str, Any]) -> FieldErrors:
    seconds = (obj.get("spec") or {}).get("expirationSeconds", 0)
    path = "spec.expirationSeconds"
    if seconds < _MIN_S:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_S:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []
