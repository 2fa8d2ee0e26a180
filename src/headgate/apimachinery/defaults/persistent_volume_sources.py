"""Defaults of persistent volume sources, shared by PersistentVolume and by VolumeAttachment's inline volume.

Volumes of a pod have more sources; see ``apimachinery/defaults/pod_volumes.py``.
"""

from __future__ import annotations

from typing import Any, Final

# source -> field -> value when the field is absent or empty
_SOURCES: Final[dict[str, dict[str, Any]]] = {
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "iscsi": {"iscsiInterface": "default"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}

# the same for fields whose explicit empty value is kept
_POINTERS: Final[dict[str, dict[str, Any]]] = {
    "hostPath": {"type": ""},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
}


def default_persistent_volume_source(spec: dict[str, Any]) -> None:
    for source, fields in _SOURCES.items():
        volume = spec.get(source)
        if volume is not None:
            for name, value in fields.items():
                volume[name] = volume.get(name) or value
    for source, fields in _POINTERS.items():
        volume = spec.get(source)
        if volume is not None:
            for name, value in fields.items():
                volume.setdefault(name, value)
