"""One object seen in the versions that its managers used.

Almost always there is one version, and then nothing here costs anything. For a kind that is served in several, the
caller hands in a :data:`Convert`; a manager whose version cannot be reached any more loses its entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from headgate.kube.apply.compare import Comparison, compare
from headgate.kube.apply.sets import FieldSet
from headgate.kube.apply.shapes import Shape, shape_of
from headgate.kube.schema import Schemas

Object: TypeAlias = dict[str, Any]


class Converted(NamedTuple):
    """An object in another version, in the form that the server prints."""

    type_name: str
    obj: Object


# An object (its own ``apiVersion`` says which version it has) and the version wanted; None: there is no such version.
Convert: TypeAlias = "Callable[[Object, str], Converted | None]"


class Seen(NamedTuple):
    shape: Shape
    obj: Object


class Versions:
    """How to see objects of one type in other versions."""

    def __init__(self, schemas: Schemas, type_name: str, api_version: str, convert: Convert | None) -> None:
        self.schemas = schemas
        self.api_version = api_version
        self.shape = shape_of(schemas, type_name)
        self._convert = convert

    def see(self, obj: Object, api_version: str) -> Seen | None:
        """``obj``, which is in the version of the request, in another one."""
        if api_version == self.api_version:
            return Seen(self.shape, obj)
        return self.move(obj, api_version)

    def move(self, obj: Object, api_version: str) -> Seen | None:
        """``obj`` from whatever version it says it has."""
        if self._convert is None:
            return None
        converted = self._convert(obj, api_version)
        return None if converted is None else Seen(shape_of(self.schemas, converted.type_name), converted.obj)


class Changes:
    """The difference of two objects, in each version that somebody asks for. ``reset`` fields never count."""

    def __init__(self, versions: Versions, old: Object, new: Object, reset: FieldSet) -> None:
        self._versions = versions
        self._old = old
        self._new = new
        self._reset = reset
        self._known: dict[str, Comparison | None] = {}

    def in_version(self, api_version: str) -> Comparison | None:
        if api_version not in self._known:
            self._known[api_version] = self._compare(api_version)
        return self._known[api_version]

    def _compare(self, api_version: str) -> Comparison | None:
        old = self._versions.see(self._old, api_version)
        new = self._versions.see(self._new, api_version)
        if old is None or new is None:
            return None
        return compare(old.shape, old.obj, new.obj).outside(self._reset)
