"""The schema of every served kind, as data.

A :class:`Schemas` holds one :class:`TypeDef` per API type and, per type, one :class:`Field` per wire field: its type,
whether the API server sends it when it is empty, how lists and maps merge. ``tools/generate_schemas.py`` generates the
tables. ``apimachinery/codec/codec.py`` decodes by them, ``apimachinery/patch/`` and ``apimachinery/apply/`` merge by
them, ``apiserver/discovery/openapi.py`` serves them as OpenAPI.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import msgspec

TypeKind = Literal[
    "struct",  # `ref` names a TypeDef
    "list",  # `items`
    "map",  # string keys, `items` are the values
    "string",
    "int32",
    "int64",
    "float",
    "bool",
    "bytes",  # base64 in JSON
    "quantity",  # a text such as "500m"
    "time",  # RFC 3339, whole seconds
    "microtime",  # RFC 3339, six digits
    "duration",  # Go duration text
    "intorstring",
    "raw",  # any JSON value, kept as it is
    "either",  # an object with the TypeDef `ref`, or a value of type `items`
]


class Type(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: TypeKind
    ref: str = ""
    items: Type | None = None
    go: str = ""  # the Go name of a named scalar, list or map ("v1.RestartPolicy"); decoding errors print it


class Field(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wire field of a type.

    ``pointer``: an explicit zero (``0``, ``""``, ``false``, ``{}``) is kept; without it an optional zero is dropped.
    ``omit``: when the server omits the field in a response. ``empty``: for nil pointers, zero scalars and empty lists
    and maps, but not for an empty struct that is not a pointer, which is sent as ``{}``; ``zero``: also for an empty
    struct or time; ``never``: the field is always sent (``null`` for a nil list or map, otherwise the zero value).
    ``embedded``: the Go struct that the field is inherited from (``VolumeSource``); decoding errors name it.
    """

    name: str
    type: Type
    pointer: bool = False
    omit: Literal["empty", "zero", "never"] = "empty"
    required: bool = False
    default: Any = msgspec.UNSET
    list_type: Literal["", "atomic", "set", "map"] = ""
    list_keys: tuple[str, ...] = ()
    map_atomic: bool = False
    map_granular: bool = False  # although its type is atomic elsewhere
    merge_key: str = ""
    patch_strategy: tuple[Literal["merge", "replace", "retainKeys"], ...] = ()
    enum: tuple[str, ...] = ()  # values of the field or of its elements: documentation, not validation
    embedded: str = ""


class TypeDef(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str  # "io.k8s.api.core.v1.PodSpec"
    fields: tuple[Field, ...] = ()
    atomic: bool = False  # x-kubernetes-map-type: atomic on the type itself


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class _KindRow(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str
    type: str


class _Tables(msgspec.Struct, frozen=True):
    types: tuple[TypeDef, ...]
    kinds: tuple[_KindRow, ...]


class Schemas:
    """All types by name, their fields by wire name, and the type of each kind. Immutable after construction."""

    def __init__(self, types: tuple[TypeDef, ...], kinds: dict[GroupVersionKind, str]) -> None:
        self.types: Final = {each.name: each for each in types}
        self.fields: Final = {each.name: {field.name: field for field in each.fields} for each in types}
        self.kinds: Final = kinds

    @classmethod
    def load(cls, tables: bytes) -> Schemas:
        """Decodes the generated tables (JSON). The caller reads the file: this package does no I/O."""
        decoded = msgspec.json.decode(tables, type=_Tables)
        return cls(
            decoded.types, {GroupVersionKind(row.group, row.version, row.kind): row.type for row in decoded.kinds}
        )

    def type_of(self, gvk: GroupVersionKind) -> TypeDef | None:
        name = self.kinds.get(gvk)
        return None if name is None else self.types[name]
