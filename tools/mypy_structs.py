"""A plugin for mypy: the keywords of ``msgspec.structs.replace`` are fields of the struct, with values of their types.

The stub of msgspec takes any keywords, so a renamed field is otherwise found only when the call runs.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.expandtype import expand_type_by_instance
from mypy.maptype import map_instance_to_supertype
from mypy.nodes import Var
from mypy.plugin import FunctionContext, Plugin
from mypy.subtypes import is_subtype
from mypy.types import Instance, Type, UnionType, get_proper_type

_REPLACE = "msgspec.structs.replace"


class StructsPlugin(Plugin):
    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _check_replace if fullname == _REPLACE else None


def _check_replace(context: FunctionContext) -> Type:
    struct = get_proper_type(context.arg_types[0][0])
    types = [get_proper_type(each) for each in struct.items] if isinstance(struct, UnionType) else [struct]
    for each in types:
        if isinstance(each, Instance):
            for name, value in zip(context.arg_names[1], context.arg_types[1], strict=True):
                if name is not None:  # a mapping that is unpacked has no names here
                    _check_field(context, each, name, value)
    return context.default_return_type


def _check_field(context: FunctionContext, struct: Instance, name: str, value: Type) -> None:
    symbol = struct.type.get(name)
    if symbol is None or not isinstance(symbol.node, Var):
        context.api.fail(f'"{struct.type.name}" has no field "{name}"', context.context)
        return
    if symbol.node.type is None:
        return
    owner = map_instance_to_supertype(struct, symbol.node.info)
    expected = expand_type_by_instance(symbol.node.type, owner)
    if not is_subtype(value, expected):
        context.api.fail(f'field "{name}" of "{struct.type.name}" has type {expected}, not {value}', context.context)


def plugin(version: str) -> type[Plugin]:
    return StructsPlugin
