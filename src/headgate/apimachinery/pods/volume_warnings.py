"""Warnings about volumes: drivers that no longer work, and files of one volume with overlapping paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Final, NamedTuple

from headgate.kube import quantity
from headgate.kube.field_errors import quote

Object = dict[str, Any]

# Source, its name in the warning, and the warning.
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


_MAX_CONFLICTS: Final = 4_096  # of one volume; the headers of a response have at most 4,096 characters of warnings
_MAX_PATH_PARTS: Final = 100_000  # limits the memory for the paths of one volume


class _File(NamedTuple):
    path: str
    source: str = ""

    def __str__(self) -> str:
        return f"{quote(self.path)} ({self.source})" if self.source else quote(self.path)


class _Directory:
    """The files of a volume as a tree of path parts, to find the files that overlap a new one."""

    __slots__ = ("children", "files", "subtree_files")

    def __init__(self) -> None:
        self.children: dict[str, _Directory] = {}
        self.files: list[tuple[int, _File]] = []  # files with exactly this path, each with its number
        self.subtree_files: list[tuple[int, _File]] = []  # these files and all below

    def add(self, number: int, file: _File) -> list[_File]:
        """Adds a file; returns the earlier files with the same path, below it, or with a prefix of its path."""
        target, parents = self, []
        for part in file.path.split("/"):
            parents.append(target)
            target = target.children.setdefault(part, _Directory())
        conflicting = target.subtree_files[:_MAX_CONFLICTS]
        for directory in parents:
            conflicting += directory.files[:_MAX_CONFLICTS]
            directory.subtree_files.append((number, file))
        target.files.append((number, file))
        target.subtree_files.append((number, file))
        return [each for _, each in sorted(conflicting, key=itemgetter(0))]


def volume_warnings(volumes: Iterable[Object], path: str) -> Iterator[str]:
    volumes = list(volumes)
    for index, volume in enumerate(volumes):
        for source, shown, text in _DEPRECATED:
            if volume.get(source) is not None:
                yield f"{path}[{index}].{shown}: {text}"
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            resources_path = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec.resources"
            yield from _storage_warnings((template.get("spec") or {}).get("resources") or {}, resources_path)
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
        for conflict in _PathConflicts().add(files):
            yield f"volume {quote(name)} ({label}): overlapping paths: {conflict}"
    projected = _PathConflicts()
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if not projection:
            yield f"volume {quote(name)} (Projected) has no sources provided"
        for conflict in projected.add(_projected_files(projection)):
            yield f"volume {quote(name)} (Projected): overlapping paths: {conflict}"


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


class _PathConflicts:
    """Finds the conflicts of each file of a volume with all files before it."""

    def __init__(self) -> None:
        self._root = _Directory()
        self._count = 0
        self._remaining = _MAX_CONFLICTS
        self._remaining_parts = _MAX_PATH_PARTS

    def add(self, files: Iterable[_File]) -> Iterator[str]:
        for listed in files:
            file = _File(listed.path.rstrip("/"), listed.source)
            if not file.path or not self._remaining:
                continue
            self._remaining_parts -= file.path.count("/") + 1
            if self._remaining_parts < 0:
                return
            self._count += 1
            conflicting = self._root.add(self._count, file)[: self._remaining]
            self._remaining -= len(conflicting)
            for other in conflicting:
                yield f"{file} with {other}"
