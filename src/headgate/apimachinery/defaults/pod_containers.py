"""Default values of a container of any kind."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.defaults.image_references import default_pull_policy
from headgate.apimachinery.defaults.pod_volumes import default_field_ref
from headgate.apimachinery.defaults.resource_lists import round_quantities

Object = dict[str, Any]

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)
_HOOKS: Final = ("postStart", "preStop")


def default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source is not None:
            _default_env_source(source)
    round_quantities(container.get("resources"), "limits", "requests")
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    lifecycle = container.get("lifecycle")
    if lifecycle is not None:
        for name in _HOOKS:
            _default_http_get(lifecycle.get(name))


def _default_env_source(source: Object) -> None:
    default_field_ref(source)
    file_key = source.get("fileKeyRef")
    if file_key is not None and file_key.get("optional") is None:
        file_key["optional"] = False


def _default_probe(probe: Object) -> None:
    for field, value in _PROBE_DEFAULTS:
        if not probe.get(field):
            probe[field] = value
    _default_http_get(probe)
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(handler: Object | None) -> None:
    http_get = None if handler is None else handler.get("httpGet")
    if http_get is None:
        return
    if not http_get.get("path"):
        http_get["path"] = "/"
    if not http_get.get("scheme"):
        http_get["scheme"] = "HTTP"
