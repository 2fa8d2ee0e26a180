"""Merges an applied configuration into the live object.

Nothing is removed here (that is ``remove.py``): the configuration's leaves win, everything else stays. Items of lists
with identity keep the live order, except that items which the configuration names are in the order of the
configuration. A null changes nothing of a value with parts.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of


class _Absent:
    """Marks a side that has no value, where null is a value."""


ABSENT: Final = _Absent()


def merge(shape: MergeSchema, live: Any, config: Any) -> Any:
    """The merged value, or ``ABSENT`` if nothing is left. Parts are shared with the inputs."""
    if config is ABSENT or live is config:
        return live
    if shape.whole:
        return config
    match shape.kind:
        case MergeSchemaKind.LIST:
            return _merge_lists(shape, live, config)
        case MergeSchemaKind.ANY if not isinstance(config, dict) and config is not None:
            return config
        case _:
            return _merge_maps(shape, live, config)


def _merge_maps(shape: MergeSchema, live: Any, config: Any) -> Any:
    under: dict[str, Any] = live if isinstance(live, dict) else {}
    over: dict[str, Any] = config if isinstance(config, dict) else {}
    if not under and not over:
        return config
    out: dict[str, Any] = {}
    for name, value in under.items():
        if name not in over:
            out[name] = value
        else:
            _put(out, name, merge(_below(shape, name), value, over[name]))
    for name, value in over.items():
        if name not in under:
            _put(out, name, merge(_below(shape, name), ABSENT, value))
    return out or ABSENT


def _put(out: dict[str, Any], name: str, value: Any) -> None:
    if value is not ABSENT:
        out[name] = value


def _below(shape: MergeSchema, name: str) -> MergeSchema:
    part = shape.parts.get(name)
    return part.shape if part is not None else shape.item or ANY


def _merge_lists(shape: MergeSchema, live: Any, config: Any) -> Any:
    under: list[Any] = live if isinstance(live, list) else []
    over: list[Any] = config if isinstance(config, list) else []
    if not under and not over:
        return config
    item = shape.item or ANY
    live_elements = [_element(shape, each) for each in under]
    config_items = {_element(shape, each): each for each in over}
    live_items: dict[str, Any] = {}
    for element, each in zip(live_elements, under, strict=True):
        # Of an item that is there twice neither can be merged with: the configuration's replaces both.
        live_items[element] = None if element in live_items else each
    out = [
        under[index] if index is not None else merge(item, live_items.get(element, ABSENT), config_items[element])
        for element, index in _sequence(live_elements, list(config_items))
    ]
    return [each for each in out if each is not ABSENT] or ABSENT


def _element(shape: MergeSchema, item: Any) -> str:
    element = element_of(shape, item)
    return "" if isinstance(element, InvalidListItem) else element


def _sequence(live: list[str], config: list[str]) -> list[tuple[str, int | None]]:
    """The order of the merged items: live ones by index, those of the configuration by element."""
    wanted, known = set(config), set(live)
    shared = [element for element in config if element in known]
    shared_at = 0
    done: set[str] = set()
    out: list[tuple[str, int | None]] = []
    at, of = 0, 0
    while at < len(live) or of < len(config):
        upcoming = shared[shared_at] if shared_at < len(shared) else None
        if at < len(live) and of < len(config):
            if live[at] == config[of]:
                out.append((live[at], None))
                done.add(live[at])
                at, of, shared_at = at + 1, of + 1, shared_at + 1
                continue
            if live[at] in wanted and upcoming is not None and upcoming != live[at]:
                # Shared, but not next in the order that the configuration asks for: its turn comes with its item there.
                at += 1
                continue
        if at < len(live):
            if live[at] not in wanted:
                out.append((live[at], at))
                at += 1
                continue
            if live[at] in done:
                at += 1
        if of < len(config):
            out.append((config[of], None))
            done.add(config[of])
            if upcoming == config[of]:
                shared_at += 1
            of += 1
    return out
