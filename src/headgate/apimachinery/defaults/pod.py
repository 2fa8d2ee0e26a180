"""Default values of a pod, and of the pod template of every workload kind.

``default_pod_spec`` is what a Deployment's template gets; a pod gets more (``default_pod``): requests from limits,
service links, host ports. Fields with two names (``serviceAccount``) are set here too, because a client may read either
name. ``apimachinery/pods/preparation.py`` has the steps after defaulting.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.defaults.pod_containers import default_container
from headgate.apimachinery.defaults.pod_volumes import default_volume
from headgate.apimachinery.defaults.resource_lists import round_quantities
from headgate.kube.pods.default_requests import default_requests

Object = dict[str, Any]

_SPEC_TEXTS: Final = (
    ("dnsPolicy", "ClusterFirst"),
    ("restartPolicy", "Always"),
    ("schedulerName", "default-scheduler"),
)
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")

# Annotations from before Kubernetes 1.8 that would override the fields with the same meaning.
_INIT_CONTAINER_ANNOTATIONS: Final = tuple(
    f"pod.{stage}.kubernetes.io/init-container{what}" for stage in ("alpha", "beta") for what in ("s", "-statuses")
)


def default_pod(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    default_requests(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    default_pod_spec(spec)
    # Older servers stored negative values, which are invalid.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _drop_init_container_annotations(obj)
    status = obj.get("status")
    if status:
        _default_status(status)


def default_pod_template(template: Object) -> None:
    """A PodTemplateSpec: metadata and spec."""
    default_pod_spec(template.setdefault("spec", {}))
    _drop_init_container_annotations(template)


def default_pod_spec(spec: Object) -> None:
    for field, text in _SPEC_TEXTS:
        if not spec.get(field):
            spec[field] = text
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            default_container(container)
    round_quantities(spec, "overhead")
    round_quantities(spec.get("resources"), "limits", "requests")


def _default_host_ports(spec: Object) -> None:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _default_status(status: Object) -> None:
    for field in _STATUSES:
        for container in status.get(field) or ():
            round_quantities(container, "allocatedResources")
            round_quantities(container.get("resources"), "limits", "requests")
    round_quantities(status, "allocatedResources")
    round_quantities(status.get("resources"), "limits", "requests")
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def _drop_init_container_annotations(obj: Object) -> None:
    annotations = (obj.get("metadata") or {}).get("annotations")
    if annotations:
        for name in _INIT_CONTAINER_ANNOTATIONS:
            annotations.pop(name, None)
