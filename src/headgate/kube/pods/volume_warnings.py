"""Warnings about volumes: drivers that no longer work, and files of one volume that would hide each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from headgate.kube import quantity
from headgate.kube.errors import quote

Object = dict[str, Any]

# Source, what the warning calls it, and the warning.
_DEPRECATED: Final = (
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)


class _File(NamedTuple):
    path: str
    source: str = ""

    def __str__(self) -> str:
        return f"{quote(self.path)} ({self.source})" if self.source else quote(self.path)

    def overlaps(self, other: _File) -> bool:
        """One is the other, or a directory on the way to it."""
        mine, theirs = f"{self.path}/", f"{other.path}/"
        return mine.startswith(theirs) or theirs.startswith(mine)


def volume_warnings(volumes: Iterable[Object], path: str) -> Iterator[str]:
    volumes = list(volumes)
    for index, volume in enumerate(volumes):
        for source, shown, text in _DEPRECATED:
            if volume.get(source) is not None:
                yield f"{path}[{index}].{shown}: {text}"
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            at = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec.resources"
            yield from _storage_warnings((template.get("spec") or {}).get("resources") or {}, at)
    for volume in volumes:
        yield from _overlap_warnings(volume)


def _storage_warnings(resources: Object, path: str) -> Iterator[str]:
    for which in ("requests", "limits"):
        value = quantity.amount((resources.get(which) or {}).get("storage", "0"))
        if value.milli_value() % 1000:
            shown = quote(value.canonical)
            yield f"{path}.{which}[storage]: fractional byte value {shown} is invalid, must be an integer"


def _overlap_warnings(volume: Object) -> Iterator[str]:
    name = volume.get("name", "")
    for source, label in (
        ("configMap", "ConfigMap {}".format(quote((volume.get("configMap") or {}).get("name", "")))),
        ("secret", "Secret {}".format(quote((volume.get("secret") or {}).get("secretName", "")))),
        ("downwardAPI", "DownwardAPI"),
    ):
        files = [_File(each.get("path", "")) for each in (volume.get(source) or {}).get("items") or ()]
        for clash in _clashes(files):
            yield f"volume {quote(name)} ({label}): overlapping paths: {clash}"
    files = []
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if not projection:
            yield f"volume {quote(name)} (Projected) has no sources provided"
        before = len(files)
        files += _projected_files(projection)
        for clash in _clashes(files, before):
            yield f"volume {quote(name)} (Projected): overlapping paths: {clash}"


def _projected_files(projection: Object) -> list[_File]:
    for source, label in (("configMap", "ConfigMap"), ("secret", "Secret")):
        content = projection.get(source)
        if content is not None and content.get("items") is not None:
            named = f"{label} {quote(content.get('name', ''))}"
            return [_File(each.get("path", ""), named) for each in content["items"]]
    content = projection.get("downwardAPI")
    if content is not None and content.get("items") is not None:
        return [_File(each.get("path", ""), "DownwardAPI") for each in content["items"]]
    token = projection.get("serviceAccountToken")
    return [] if token is None else [_File(token.get("path", ""), "ServiceAccountToken")]


def _clashes(files: list[_File], start: int = 0) -> Iterator[str]:
    """Each file from ``start`` on against all before it."""
    files = [_File(each.path.rstrip("/"), each.source) for each in files]
    for index in range(start, len(files)):
        for other in files[:index]:
            if files[index].path and other.path and files[index].overlaps(other):
                yield f"{files[index]} with {other}"
