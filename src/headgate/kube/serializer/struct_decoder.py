"""Strict decoders from the fields of a ``msgspec.Struct``: unknown fields, wrong types and values outside their limits
are reported by path, all at once (``strict_decoding.py``).

The decoders check; ``msgspec.convert`` makes the struct of a value without errors. The schemas are Headgate's
``Configuration`` (``cli/configuration/types.py``) and the values of an installation (``install/options.py``).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required
from headgate.kube.serializer import strict_decoding as strict
from headgate.kube.serializer.strict_decoding import Decoder


def field_decoders(struct: type[msgspec.Struct]) -> dict[str, Decoder]:
    """The decoder of each field, by its name in the file."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {each.encode_name: type_decoder(each.type) for each in info.fields}


def plain_type(type_: inspect.Type) -> tuple[inspect.Type, str]:
    """The type without its metadata and without the alternative ``None``, and the description."""
    description = ""
    while True:
        match type_:
            case inspect.Metadata(inner, extra):
                description = (extra or {}).get("description", description)
                type_ = inner
            case inspect.UnionType(types):
                given = [each for each in types if not isinstance(each, inspect.NoneType)]
                if len(given) > 1:
                    return type_, description
                (type_,) = given
            case _:
                return type_, description


def type_decoder(type_: inspect.Type) -> Decoder:
    plain, _ = plain_type(type_)
    match plain:
        case inspect.StructType(cls=struct):
            return strict.record(field_decoders(struct))
        case inspect.VarTupleType(item) | inspect.ListType(item):
            return _list_of(type_decoder(item))
        case inspect.DictType(value_type=inspect.AnyType()):
            return strict.mapping
        case inspect.DictType(value_type=value):
            return _map_of(type_decoder(value))
        case inspect.LiteralType(values):
            return _one_of(tuple(str(each) for each in values))
        case inspect.IntType(ge=least, le=most):
            return _integer(least, most)
        case inspect.BoolType():
            return strict.boolean
        case inspect.StrType():
            return strict.text
        case inspect.UnionType(types) if {type(each) for each in types} == {inspect.IntType, inspect.StrType}:
            return strict.text_or_integer
    raise TypeError(f"the schema has a type that cannot be decoded: {plain}")


def _list_of(decode_item: Decoder) -> Decoder:
    """``null`` is no item: the list of a struct has none."""
    decode_list = strict.list_of(decode_item)

    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        decoded = decode_list(value, path, errors)
        if isinstance(value, list):
            errors += [
                required(f"{path}[{i}]", "null is no item; remove it") for i, each in enumerate(value) if each is None
            ]
        return decoded

    return decode


def _map_of(decode_value: Decoder) -> Decoder:
    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        if strict.mapping(value, path, errors) is None:
            return None
        return {key: decode_value(each, f"{path}.{key}", errors) for key, each in value.items() if each is not None}

    return decode


def _one_of(values: tuple[str, ...]) -> Decoder:
    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        if strict.text(value, path, errors) is None:
            return None
        if value not in values:
            errors.append(not_supported(path, value, values))
            return None
        return value

    return decode


def _integer(least: int | None, most: int | None) -> Decoder:
    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        if strict.int64(value, path, errors) is None:
            return None
        if (least is not None and value < least) or (most is not None and value > most):
            limits = f"must be at least {least}" + ("" if most is None else f" and at most {most}")
            errors.append(invalid(path, value, limits))
            return None
        return value

    return decode
