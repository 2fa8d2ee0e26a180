"""Validation of an Event. Two API groups serve the same objects; the newer one is strict.

All objects have the field names of the core group, also those of a request to ``events.k8s.io``.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_immutable, validate_text

Object = dict[str, Any]

_MAX_FIELD: Final = 128
_MAX_MESSAGE: Final = 1024
_WRONG_NAMESPACE: Final = "does not match event.namespace"
_IMMUTABLE: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_ZEROS: Final[dict[str, Any]] = {
    "count": 0,
    **dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime", "related"), None),
    "involvedObject": {},
    "source": {},
}
_STRICT_NAMES: Final = {"reportingComponent": "reportingController"}


def validate_event(event: Object, *, strict: bool) -> FieldErrors:
    """The rules for all events. An event with an ``eventTime`` is of the new style."""
    namespace = event["metadata"].get("namespace", "")
    involved = (event.get("involvedObject") or {}).get("namespace", "")
    errors: FieldErrors = []
    error = invalid("involvedObject.namespace", involved, _WRONG_NAMESPACE)
    if not event.get("eventTime"):
        if involved != namespace and not (not involved and namespace in ("", "default")):
            errors.append(error)
    else:
        if not involved and namespace not in ("default", "kube-system"):
            errors.append(error)
        errors += _validate_new_style(event, "reportingController" if strict else "reportingComponent")
    return errors + validate_text(names.is_dns1123_subdomain, namespace, "namespace")


def _validate_new_style(event: Object, reporter_field: str) -> FieldErrors:
    errors: FieldErrors = []
    reporter = event.get("reportingComponent", "")
    if not reporter:
        errors.append(required(reporter_field))
    errors += validate_text(names.is_qualified_name, reporter, reporter_field)
    for field in ("reportingInstance", "action", "reason"):
        text = event.get(field, "")
        if not text:
            errors.append(required(field))
        errors += _validate_max_length(text, field, _MAX_FIELD)
    return errors + _validate_max_length(event.get("message", ""), "message", _MAX_MESSAGE)


def _validate_max_length(text: str, field: str, limit: int) -> FieldErrors:
    return [invalid(field, "", f"can have at most {limit} characters")] if len(text.encode()) > limit else []


def validate_strict_event_create(event: Object) -> FieldErrors:
    errors = validate_event(event, strict=True)
    errors += validate_object_meta(event["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    errors += _validate_series(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
    for field in ("firstTimestamp", "lastTimestamp", "count"):
        if event.get(field):
            errors.append(invalid(field, "", "needs to be unset"))
    source = event.get("source") or {}
    if source.get("component") or source.get("host"):
        errors.append(invalid("source", "", "needs to be unset"))
    return errors


def _validate_series(event: Object) -> FieldErrors:
    series = event.get("series")
    if series is None:
        return []
    errors: FieldErrors = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def validate_strict_event_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_event(new, strict=True)
    errors += validate_object_meta_update(new["metadata"], old["metadata"])
    if new.get("series") != old.get("series"):
        errors += _validate_series(new)
    for field in _IMMUTABLE:
        zero = _ZEROS.get(field, "")
        errors += validate_immutable(
            _default_if_absent(new.get(field), zero),
            _default_if_absent(old.get(field), zero),
            _STRICT_NAMES.get(field, field),
        )
    return errors


def _default_if_absent(value: Any, zero: Any) -> Any:
    """``zero`` for an absent value; an empty object is not absent."""
    return value if value or (zero is None and value == {}) else zero
