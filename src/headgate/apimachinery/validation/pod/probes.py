"""Validation of probes, lifecycle hooks and their handlers.

``grace_s``: the pod's terminationGracePeriodSeconds; None if it is missing, which ``spec.py`` reports.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.names import is_http_header_name
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.values import validate_port_number_or_name

Object = dict[str, Any]

_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_NONNEGATIVE_FIELDS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_probes(container: Object, grace_s: int | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(field)
        if probe is None:
            continue
        field_path = f"{path}.{field}"
        errors += _validate_probe(probe, grace_s, field_path)
        if field == "readinessProbe":
            seconds = probe.get("terminationGracePeriodSeconds")
            if seconds is not None:
                detail = "must not be set for readinessProbes"
                errors.append(invalid(f"{field_path}.terminationGracePeriodSeconds", seconds, detail))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(f"{field_path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _validate_probe(probe: Object, grace_s: int | None, path: str) -> FieldErrors:
    errors = _validate_handler(probe, _PROBE_HANDLERS, grace_s, path)
    for field in _NONNEGATIVE_FIELDS:
        value = probe.get(field, 0)
        if value < 0:
            errors.append(invalid(f"{path}.{field}", value, "must be greater than or equal to 0"))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    return errors


def validate_lifecycle(lifecycle: Object, grace_s: int | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for field in ("postStart", "preStop"):
        if lifecycle.get(field) is not None:
            errors += _validate_handler(lifecycle[field], _HOOK_HANDLERS, grace_s, f"{path}.{field}")
    return errors


def _validate_handler(probe_or_hook: Object, kinds: tuple[str, ...], grace_s: int | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    found = False
    for kind in kinds:
        handler = probe_or_hook.get(kind)
        if handler is None:
            continue
        field_path = f"{path}.{kind}"
        if found:
            errors.append(forbidden(field_path, "may not specify more than 1 handler type"))
        elif kind == "sleep":
            errors += _validate_sleep(handler, grace_s, field_path)
        else:
            errors += _HANDLERS[kind](handler, field_path)
        found = True
    if not found:
        errors.append(required(path, "must specify a handler type"))
    return errors


def _validate_exec(handler: Object, path: str) -> FieldErrors:
    return [] if handler.get("command") else [required(f"{path}.command")]


def _validate_http_get(handler: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if not handler.get("path"):
        errors.append(required(f"{path}.path"))
    errors += validate_port_number_or_name(handler.get("port", 0), f"{path}.port")
    scheme = handler.get("scheme", "")
    if scheme not in ("HTTP", "HTTPS"):
        # the API server prints a value of a named Go string type as JSON
        errors.append(not_supported(f"{path}.scheme", go_named_string(scheme), ("HTTP", "HTTPS")))
    for header in handler.get("httpHeaders") or ():
        name = header.get("name", "")
        errors += [invalid(f"{path}.httpHeaders", name, message) for message in is_http_header_name(name)]
    return errors


def _validate_port(handler: Object, path: str) -> FieldErrors:
    return validate_port_number_or_name(handler.get("port", 0), f"{path}.port")


def _validate_sleep(handler: Object, grace_s: int | None, path: str) -> FieldErrors:
    seconds = handler.get("seconds", 0)
    if grace_s is None or 0 <= seconds <= grace_s:
        return []
    detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
    return [invalid(path, seconds, detail)]


_HANDLERS: Final = {
    "exec": _validate_exec,
    "httpGet": _validate_http_get,
    "tcpSocket": _validate_port,
    "grpc": _validate_port,
}
