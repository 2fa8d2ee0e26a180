"""Validation of volumes of storage systems with former in-tree drivers, and of NFS, iSCSI and Fibre Channel.

Most of them only have required fields, which are in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required
from headgate.kube.names import inclusive_range_error, is_dns1123_label
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]
SourceCheck = Callable[[Object, str], FieldErrors]

_MAX_INITIATOR: Final = 64
_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.([0-9A-Za-z-.]+)(:[^,;*&$|\s]+)$", re.ASCII),
    "eui": re.compile(r"^eui.[0-9A-Za-z]{16}$"),
    "naa": re.compile(r"^naa.[0-9A-Za-z]{32}$"),
}
_CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_URI: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def _needs(*fields: str) -> SourceCheck:
    def check(source: Object, path: str) -> FieldErrors:
        return [required(f"{path}.{field}") for field in fields if not source.get(field)]

    return check


def _validate_nfs(source: Object, path: str) -> FieldErrors:
    errors = _needs("server", "path")(source, path)
    file = source.get("path", "")
    if not file.startswith("/"):
        errors.append(invalid(f"{path}.path", file, "must be an absolute path"))
    return errors


def _validate_disk(name_field: str) -> SourceCheck:
    def check(source: Object, path: str) -> FieldErrors:
        errors = _needs(name_field)(source, path)
        partition = source.get("partition", 0)
        if not 0 <= partition <= 255:
            errors.append(invalid(f"{path}.partition", partition, inclusive_range_error(1, 255)))
        return errors

    return check


def _validate_iscsi(source: Object, path: str) -> FieldErrors:
    errors = _needs("targetPortal")(source, path)
    target = source.get("iqn", "")
    errors += _validate_initiator(target, f"{path}.iqn") if target else [required(f"{path}.iqn")]
    lun = source.get("lun", 0)
    if not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, inclusive_range_error(0, 255)))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    initiator = source.get("initiatorName")
    return errors if initiator is None else errors + _validate_initiator(initiator, f"{path}.initiatorname")


def _validate_initiator(name: str, path: str) -> FieldErrors:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if pattern.search(name) else [invalid(path, name, "must be valid format")]


def validate_initiator_length(source: Object, volume: str, path: str) -> FieldErrors:
    portal = source.get("targetPortal", "")
    if source.get("initiatorName") is None or len(f"{volume}:{portal}") <= _MAX_INITIATOR:
        return []
    detail = (
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
        "specified."
    )
    return [invalid(path, volume, detail)]


def _validate_fc(source: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    targets, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    field_path = f"{path}.targetWWNs"
    if not targets and not ids:
        errors.append(required(field_path, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        errors.append(invalid(field_path, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets:
        if lun is None:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= lun <= 255:
            errors.append(invalid(f"{path}.lun", lun, inclusive_range_error(0, 255)))
    return errors


def _validate_flocker(source: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _validate_quobyte(source: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    registry = source.get("registry", "")
    pairs = "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        errors.append(required(f"{path}.registry", pairs))
    elif len(source.get("tenant", "")) > 64:
        errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        errors += [
            invalid(f"{path}.registry", registry, pairs) for each in registry.split(",") if not _is_host_port(each)
        ]
    return errors + _needs("volume")(source, path)


def _is_host_port(text: str) -> bool:
    """Whether Go's net.SplitHostPort accepts the text: one colon outside brackets, before the port."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return False
    if text.startswith("["):
        return host.endswith("]") and not set("[]") & set(host[1:-1] + port)
    return not set(":[]") & set(host) and not set("[]") & set(port)


def _validate_cinder(source: Object, path: str) -> FieldErrors:
    return _needs("volumeID")(source, path) + _validate_secret_ref(source, path)


def _validate_secret_ref(source: Object, path: str) -> FieldErrors:
    secret = source.get("secretRef")
    return [] if secret is None or secret.get("name") else [required(f"{path}.secretRef.name")]


def _validate_storageos(source: Object, path: str) -> FieldErrors:
    errors = _needs("volumeName")(source, path)
    for field in ("volumeName", "volumeNamespace"):
        text = source.get(field, "")
        if text:
            errors += [invalid(f"{path}.{field}", text, message) for message in is_dns1123_label(text)]
    return errors + _validate_secret_ref(source, path)


def _validate_flex(source: Object, path: str) -> FieldErrors:
    errors = _needs("driver")(source, path)
    for key in source.get("options") or ():
        domain = f".{key.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, detail))
    return errors


def _validate_azure_disk(source: Object, path: str) -> FieldErrors:
    errors = _needs("diskName", "diskURI")(source, path)
    uri, kind, caching = source.get("diskURI", ""), source.get("kind"), source.get("cachingMode")
    if caching is not None and caching not in _CACHING_MODES:
        errors.append(not_supported(f"{path}.cachingMode", go_named_string(caching), _CACHING_MODES))
    if kind is not None and kind not in _DISK_KINDS:
        errors.append(not_supported(f"{path}.kind", go_named_string(kind), _DISK_KINDS))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_MANAGED_URI,)))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_BLOB_URI,)))
    return errors


NETWORK_SOURCES: Final[dict[str, SourceCheck]] = {
    "gcePersistentDisk": _validate_disk("pdName"),
    "awsElasticBlockStore": _validate_disk("volumeID"),
    "nfs": _validate_nfs,
    "iscsi": _validate_iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _validate_flocker,
    "rbd": _needs("monitors", "image"),
    "cinder": _validate_cinder,
    "cephfs": _needs("monitors"),
    "quobyte": _validate_quobyte,
    "fc": _validate_fc,
    "flexVolume": _validate_flex,
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _validate_azure_disk,
    "storageos": _validate_storageos,
    "scaleIO": _needs("gateway", "system", "volumeName"),
}
