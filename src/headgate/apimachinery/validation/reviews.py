"""Validation of access reviews and of TokenRequests. Neither is ever stored.

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
    return _subject_matter(review.get("spec") or {}) + _selectors(review) + _empty_metadata(review)


def validate_review(review: Object) -> FieldErrors:
    """A SubjectAccessReview."""
    return _about_somebody(review) + _empty_metadata(review)


def validate_local_review(review: Object) -> FieldErrors:
    """A LocalSubjectAccessReview: of one namespace, and of resources only."""
    found = _about_somebody(review)
    metadata, spec = review["metadata"], review.get("spec") or {}
    if any(value for field, value in metadata.items() if field not in ("namespace", "managedFields")):
        found.append(invalid("metadata", _shown(metadata), "must be empty except for namespace"))
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != metadata.get("namespace", ""):
        text = "must match metadata.namespace"
        found.append(invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), text))
    if path is not None:
        found.append(invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
    return found


def _about_somebody(review: Object) -> FieldErrors:
    spec = review.get("spec") or {}
    found = _subject_matter(spec)
    if not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified"))
    return found + _selectors(review)


def _subject_matter(spec: Object) -> FieldErrors:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", path, text)]
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, text)]
    return []


def _empty_metadata(review: Object) -> FieldErrors:
    metadata = review["metadata"]
    if any(value for field, value in metadata.items() if field != "managedFields"):
        return [invalid("metadata", _shown(metadata), "must be empty")]
    return []


def _shown(metadata: Object) -> Verbatim:
    """In the order in which an object is printed."""
    return Verbatim(msgspec.json.encode(metadata).decode())


def _selectors(review: Object) -> FieldErrors:
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    path = "spec.resourceAttributes"
    found = _selector(attributes.get("fieldSelector"), f"{path}.fieldSelector")
    for i, each in enumerate((attributes.get("fieldSelector") or {}).get("requirements") or ()):
        place = f"{path}.fieldSelector.requirements[{i}]"
        if not each.get("key"):
            found.append(required(f"{place}.key", "must be specified"))
        found += validate_operator(each, place, any_operator=True)
    found += _selector(attributes.get("labelSelector"), f"{path}.labelSelector")
    for i, each in enumerate((attributes.get("labelSelector") or {}).get("requirements") or ()):
        found += validate_requirement(each, f"{path}.labelSelector.requirements[{i}]", any_operator=True)
    return found


def _selector(selector: Object | None, path: str) -> FieldErrors:
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
