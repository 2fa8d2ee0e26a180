"""Warnings about volumes: drivers that no longer work, and files of one volume that would hide each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Final, NamedTuple

from headgate.kube import quantity
from headgate.kube.field_errors import quote

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


_MOST_CLASHES: Final = 4_096  # of one volume; the headers of an answer hold 4,096 characters of warnings
_MOST_PARTS: Final = 100_000  # of the paths of one volume: directories are made of them, and freed in one go


class _File(NamedTuple):
    path: str
    source: str = ""

    def __str__(self) -> str:
        return f"{quote(self.path)} ({self.source})" if self.source else quote(self.path)


class _Directory:
    """The files of a volume by the parts of their paths, so that a file finds those that it overlaps in one walk."""

    __slots__ = ("below", "files", "inside")

    def __init__(self) -> None:
        self.below: dict[str, _Directory] = {}
        self.files: list[tuple[int, _File]] = []  # those that have this very path, each with its number
        self.inside: list[tuple[int, _File]] = []  # these, and all below

    def put(self, number: int, file: _File) -> list[_File]:
        """Add a file; the result are the earlier ones that are the same, below it, or a directory on the way to it."""
        there, above = self, []
        for part in file.path.split("/"):
            above.append(there)
            there = there.below.setdefault(part, _Directory())
        clashing = there.inside[:_MOST_CLASHES]
        for directory in above:
            clashing += directory.files[:_MOST_CLASHES]
            directory.inside.append((number, file))
        there.files.append((number, file))
        there.inside.append((number, file))
        return [each for _, each in sorted(clashing, key=itemgetter(0))]


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
        for clash in _Clashes().add(files):
            yield f"volume {quote(name)} ({label}): overlapping paths: {clash}"
    projected = _Clashes()
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if not projection:
            yield f"volume {quote(name)} (Projected) has no sources provided"
        for clash in projected.add(_projected_files(projection)):
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


class _Clashes:
    """Each file of a volume against all that were named before it."""

    def __init__(self) -> None:
        self._root = _Directory()
        self._count = 0
        self._left = _MOST_CLASHES
        self._parts_left = _MOST_PARTS

    def add(self, files: Iterable[_File]) -> Iterator[str]:
        for given in files:
            file = _File(given.path.rstrip("/"), given.source)
            if not file.path or not self._left:
                continue
            self._parts_left -= file.path.count("/") + 1
            if self._parts_left < 0:
                return
            self._count += 1
            clashing = self._root.put(self._count, file)[: self._left]
            self._left -= len(clashing)
            for other in clashing:
                yield f"{file} with {other}"
