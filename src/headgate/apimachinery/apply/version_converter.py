"""Converts an object to the versions that its managers used.

Usually there is one version, and nothing is converted. For a kind with several versions the caller provides a
:data:`Convert`. A manager whose version does not exist any more loses its entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from headgate.apimachinery.apply.compare import Comparison, compare
from headgate.apimachinery.apply.field_sets import FieldSet
from headgate.apimachinery.apply.merge_schema import MergeSchema

Object: TypeAlias = dict[str, Any]


class ConvertedObject(NamedTuple):
    """An object in another version, in wire form, with the schema of that version."""

    schema: MergeSchema
    obj: Object


# Converts an object, which has its version in ``apiVersion``, to the version of the second argument. None: there is no
# such version. A str: the error of the conversion.
Convert: TypeAlias = "Callable[[Object, str], ConvertedObject | str | None]"


class InconvertibleObject(Exception):
    """An object cannot be converted to a version in which a manager owns fields. Caught in this package."""


class TypedValue(NamedTuple):
    """An object in one version."""

    api_version: str
    schema: MergeSchema
    obj: Object


class VersionConverter:
    """Converts objects of one type between the version of the request and other versions."""

    def __init__(self, schema: MergeSchema, api_version: str, convert: Convert | None) -> None:
        self.api_version = api_version
        self.schema = schema
        self._convert = convert

    def typed_value(self, obj: Object) -> TypedValue:
        return TypedValue(self.api_version, self.schema, obj)

    def convert_to(self, value: TypedValue, api_version: str, error_prefix: str = "") -> TypedValue | None:
        """The same object in another version; ``None`` if there is no such version."""
        if value.api_version == api_version:
            return value
        converted = None if self._convert is None else self._convert(value.obj, api_version)
        if converted is None:
            return None
        if isinstance(converted, str):
            raise InconvertibleObject(f"{error_prefix}: {converted}" if error_prefix else converted)
        return TypedValue(api_version, converted.schema, converted.obj)


class VersionedComparison:
    """The difference of two objects in any version, without the ``reset`` fields."""

    def __init__(self, converter: VersionConverter, old: Object, new: Object, reset: FieldSet) -> None:
        self._converter = converter
        self._old = old
        self._new = new
        self._reset = reset
        self._comparisons: dict[str, Comparison | None] = {}

    def in_version(self, api_version: str) -> Comparison | None:
        if api_version not in self._comparisons:
            self._comparisons[api_version] = self._compare(api_version)
        return self._comparisons[api_version]

    def _compare(self, api_version: str) -> Comparison | None:
        old = self._converter.convert_to(
            self._converter.typed_value(self._old), api_version, "failed to convert old object"
        )
        new = self._converter.convert_to(
            self._converter.typed_value(self._new), api_version, "failed to convert new object"
        )
        if old is None or new is None:
            return None
        return compare(old.schema, old.obj, new.obj).without(self._reset)
