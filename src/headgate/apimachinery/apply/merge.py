"""Merges an applied configuration into the live object.

The values of the configuration replace those of the live object; all other fields stay. ``remove.py`` removes fields.
Items of lists with keys keep the order of the live object, except that the items of the configuration have the order of
the configuration. A null in the configuration does not change a map or a list with keys.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of


class _Absent:
    """Marks a missing value, because null is a value."""


ABSENT: Final = _Absent()


def merge(schema: MergeSchema, live: Any, config: Any) -> Any:
    """The merged value, or ``ABSENT`` if it is empty. It shares parts with the inputs."""
    if config is ABSENT or live is config:
        return live
    if schema.indivisible:
        return config
    match schema.kind:
        case MergeSchemaKind.LIST:
            return _merge_lists(schema, live, config)
        case MergeSchemaKind.ANY if not isinstance(config, dict) and config is not None:
            return config
        case _:
            return _merge_maps(schema, live, config)


def _merge_maps(schema: MergeSchema, live: Any, config: Any) -> Any:
    live_value: dict[str, Any] = live if isinstance(live, dict) else {}
    config_value: dict[str, Any] = config if isinstance(config, dict) else {}
    if not live_value and not config_value:
        return config
    out: dict[str, Any] = {}
    for name, value in live_value.items():
        if name not in config_value:
            out[name] = value
        else:
            _put(out, name, merge(_below(schema, name), value, config_value[name]))
    for name, value in config_value.items():
        if name not in live_value:
            _put(out, name, merge(_below(schema, name), ABSENT, value))
    return out or ABSENT


def _put(out: dict[str, Any], name: str, value: Any) -> None:
    if value is not ABSENT:
        out[name] = value


def _below(schema: MergeSchema, name: str) -> MergeSchema:
    part = schema.fields.get(name)
    return part.schema if part is not None else schema.item or ANY


def _merge_lists(schema: MergeSchema, live: Any, config: Any) -> Any:
    live_value: list[Any] = live if isinstance(live, list) else []
    config_value: list[Any] = config if isinstance(config, list) else []
    if not live_value and not config_value:
        return config
    item = schema.item or ANY
    live_elements = [_element(schema, each) for each in live_value]
    config_items = {_element(schema, each): each for each in config_value}
    live_items: dict[str, Any] = {}
    for element, each in zip(live_elements, live_value, strict=True):
        # Duplicate live items cannot be merged: the item of the configuration replaces both.
        live_items[element] = None if element in live_items else each
    out = [
        live_value[index] if index is not None else merge(item, live_items.get(element, ABSENT), config_items[element])
        for element, index in _merge_order(live_elements, list(config_items))
    ]
    return [each for each in out if each is not ABSENT] or ABSENT


def _element(schema: MergeSchema, item: Any) -> str:
    element = element_of(schema, item)
    return "" if isinstance(element, InvalidListItem) else element


def _merge_order(live: list[str], config: list[str]) -> list[tuple[str, int | None]]:
    """The order of the merged items: live ones by index, those of the configuration by element."""
    in_config, in_live = set(config), set(live)
    shared = [element for element in config if element in in_live]
    shared_index = 0
    placed: set[str] = set()
    out: list[tuple[str, int | None]] = []
    live_index, config_index = 0, 0
    while live_index < len(live) or config_index < len(config):
        next_shared = shared[shared_index] if shared_index < len(shared) else None
        if live_index < len(live) and config_index < len(config):
            if live[live_index] == config[config_index]:
                out.append((live[live_index], None))
                placed.add(live[live_index])
                live_index, config_index, shared_index = live_index + 1, config_index + 1, shared_index + 1
                continue
            if live[live_index] in in_config and next_shared is not None and next_shared != live[live_index]:
                # In both, but not next in the order of the configuration: it is added with the configuration's item.
                live_index += 1
                continue
        if live_index < len(live):
            if live[live_index] not in in_config:
                out.append((live[live_index], live_index))
                live_index += 1
                continue
            if live[live_index] in placed:
                live_index += 1
        if config_index < len(config):
            out.append((config[config_index], None))
            placed.add(config[config_index])
            if next_shared == config[config_index]:
                shared_index += 1
            config_index += 1
    return out
