"""One object in the versions that its managers used.

Usually there is one version, and then nothing here has a cost. For a kind with several versions the caller provides a
:data:`Convert`; a manager whose version is no longer available loses its entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from headgate.apimachinery.apply.compare import Comparison, compare
from headgate.apimachinery.apply.field_sets import FieldSet
from headgate.apimachinery.apply.merge_schema import MergeSchema

Object: TypeAlias = dict[str, Any]


class ConvertedObject(NamedTuple):
    """An object in another version, in the form that the server prints."""

    shape: MergeSchema
    obj: Object


# An object (its own ``apiVersion`` says which version it has) and the version wanted. None: there is no such version; a
# text: the object is nothing in that version.
Convert: TypeAlias = "Callable[[Object, str], ConvertedObject | str | None]"


class InconvertibleObject(Exception):
    """An object cannot be converted to a version in which a manager owns fields. Ends an update or an apply; never
    leaves it.
    """


class TypedValue(NamedTuple):
    """An object in one version."""

    api_version: str
    shape: MergeSchema
    obj: Object


class VersionConverter:
    """How to see objects of one type: in the version of the request, and in others."""

    def __init__(self, shape: MergeSchema, api_version: str, convert: Convert | None) -> None:
        self.api_version = api_version
        self.shape = shape
        self._convert = convert

    def here(self, obj: Object) -> TypedValue:
        return TypedValue(self.api_version, self.shape, obj)

    def move(self, seen: TypedValue, api_version: str, failing: str = "") -> TypedValue | None:
        """The same object in another version, if there is such a version; ``failing`` says what could not be done."""
        if seen.api_version == api_version:
            return seen
        converted = None if self._convert is None else self._convert(seen.obj, api_version)
        if converted is None:
            return None
        if isinstance(converted, str):
            raise InconvertibleObject(f"{failing}: {converted}" if failing else converted)
        return TypedValue(api_version, converted.shape, converted.obj)


class VersionedComparison:
    """The difference of two objects, in each version that is asked for. ``reset`` fields never count."""

    def __init__(self, versions: VersionConverter, old: Object, new: Object, reset: FieldSet) -> None:
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
        old = self._versions.move(self._versions.here(self._old), api_version, "failed to convert old object")
        new = self._versions.move(self._versions.here(self._new), api_version, "failed to convert new object")
        if old is None or new is None:
            return None
        return compare(old.shape, old.obj, new.obj).outside(self._reset)
