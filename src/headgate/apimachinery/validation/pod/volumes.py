"""Validation of a pod's volumes: names, one source each, and the rules of each source.

The sources themselves are in ``volume_sources.py`` (files, claims, images), ``volume_network.py`` (storage systems)
and ``volume_projected.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.apimachinery.validation.pod.volume_network import NETWORK_SOURCES, validate_initiator_length
from headgate.apimachinery.validation.pod.volume_projected import validate_projected
from headgate.apimachinery.validation.pod.volume_sources import FILE_SOURCES, validate_image
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, quote, required
from headgate.kube.names import is_dns1123_label, is_dns1123_subdomain

Object = dict[str, Any]

# In the order of the API server: the first source is validated, any other is an error.
_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
# Misspelled paths in Kubernetes' errors.
_NAME_WHEN_TOO_MANY: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_NAME_WHEN_CHECKED: Final = {"gcePersistentDisk": "persistentDisk"}

_SIMPLE_SOURCES: Final = {**FILE_SOURCES, **NETWORK_SOURCES}


def validate_volumes(
    volumes: Sequence[Object], pod_name: str, path: str, options: PodOptions
) -> tuple[dict[str, Object], FieldErrors]:
    """The valid volumes, which containers may mount, and the errors of the others."""
    errors: FieldErrors = []
    valid: dict[str, Object] = {}
    created_claims = {
        f"{pod_name}-{each.get('name', '')}" for each in volumes if pod_name and each.get("ephemeral") is not None
    }
    for index, volume in enumerate(volumes):
        field_path, name = f"{path}[{index}]", volume.get("name", "")
        found = _validate_source(volume, name, pod_name, field_path, options)
        if not name:
            found.append(required(f"{field_path}.name"))
        else:
            found += [invalid(f"{field_path}.name", name, message) for message in is_dns1123_label(name)]
        if name in valid:
            found.append(duplicate(f"{field_path}.name", name))
        if not found:
            valid[name] = volume
        errors += found
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in created_claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{field_path}.persistentVolumeClaim.claimName", claim, detail))
    return valid, errors


def _validate_source(volume: Object, name: str, pod_name: str, path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    found = ""
    for source in _ORDER:
        content = volume.get(source)
        if content is None:
            continue
        if found:
            shown = _NAME_WHEN_TOO_MANY.get(source, source)
            errors.append(forbidden(f"{path}.{shown}", "may not specify more than 1 volume type"))
        else:
            found = source
            errors += _validate_content(source, content, f"{path}.{_NAME_WHEN_CHECKED.get(source, source)}", options)
        if source == "iscsi":
            errors += validate_initiator_length(content, name, f"{path}.name")
    if not found:
        errors.append(required(path, "must specify a volume type"))
    if found == "ephemeral" and pod_name and name:
        errors += _validate_claim_name(f"{pod_name}-{name}", name, f"{path}.name")
    return errors


def _validate_content(source: str, content: Object, path: str, options: PodOptions) -> FieldErrors:
    if source == "projected":
        return validate_projected(content, path, options)
    if source == "image":
        return validate_image(content, path, options)
    return _SIMPLE_SOURCES[source](content, path)


def _validate_claim_name(claim: str, volume: str, path: str) -> FieldErrors:
    """The name of an ephemeral volume's claim consists of the names of the pod and the volume."""
    return [invalid(path, volume, f"PVC name {quote(claim)}: {message}") for message in is_dns1123_subdomain(claim)]
