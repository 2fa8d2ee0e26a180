"""Default values of a pod's volumes. A volume without a source is an emptyDir.

The rest of a pod's defaults is in ``apimachinery/defaults/pod.py``.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.defaults.image_references import default_pull_policy
from headgate.apimachinery.defaults.resource_lists import round_quantities

Object = dict[str, Any]

FILE_MODE: Final = 0o644
TOKEN_LIFETIME_S: Final = 3600

# source → (field, default if empty or absent)
_EMPTY_TEXT: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "iscsi": (("iscsiInterface", "default"),),
    "rbd": (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")),
    "scaleIO": (("storageMode", "ThinProvisioned"), ("fsType", "xfs")),
}
# source → (field, default if absent; an explicit empty value stays)
_ABSENT: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    "hostPath": (("type", ""),),
    "secret": (("defaultMode", FILE_MODE),),
    "configMap": (("defaultMode", FILE_MODE),),
    "downwardAPI": (("defaultMode", FILE_MODE),),
    "projected": (("defaultMode", FILE_MODE),),
    "azureDisk": (("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("readOnly", False), ("kind", "Shared")),
}


def default_volume(volume: Object) -> None:
    if not any(value is not None for field, value in volume.items() if field != "name"):
        volume["emptyDir"] = {}
        return
    for source, content in volume.items():
        if not isinstance(content, dict):
            continue
        for field, text in _EMPTY_TEXT.get(source, ()):
            if not content.get(field):
                content[field] = text
        for field, value in _ABSENT.get(source, ()):
            if content.get(field) is None:
                content[field] = value
        default_source = _SOURCE_DEFAULTERS.get(source)
        if default_source is not None:
            default_source(content)


def default_claim_spec(spec: Object) -> None:
    """The spec of a PersistentVolumeClaim, or of the claim template of an ephemeral volume."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    round_quantities(spec.get("resources"), "limits", "requests")


def default_field_ref(obj: Object) -> None:
    field_ref = obj.get("fieldRef")
    if field_ref is not None and not field_ref.get("apiVersion"):
        field_ref["apiVersion"] = "v1"


def _default_items(content: Object) -> None:
    for item in content.get("items") or ():
        default_field_ref(item)


def _default_sources(projected: Object) -> None:
    for source in projected.get("sources") or ():
        if source.get("downwardAPI") is not None:
            _default_items(source["downwardAPI"])
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = TOKEN_LIFETIME_S


def _default_image(image: Object) -> None:
    if not image.get("pullPolicy"):
        image["pullPolicy"] = default_pull_policy(image.get("reference") or "")


def _default_ephemeral(ephemeral: Object) -> None:
    template = ephemeral.get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))


_SOURCE_DEFAULTERS: Final = {
    "downwardAPI": _default_items,
    "projected": _default_sources,
    "image": _default_image,
    "ephemeral": _default_ephemeral,
}
