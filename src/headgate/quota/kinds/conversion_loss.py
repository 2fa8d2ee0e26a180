"""Fields that a conversion loses: the differences between an object and its round trip.

:func:`find_lost_fields` compares an object with its round trip; :func:`restore_lost_fields` puts the lost fields back,
each only if no client has changed it since. Linked fields have a meaning only together: they are restored together or
not at all, and a link that the conversion keeps is recorded, too, so that its change is noticed.
``conversion.py`` stores the differences in an annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

Object = dict[str, Any]
Step = str | tuple[str]
"""One step of a path: the name of a field, or, in a tuple, the ``name`` of the item of a list."""
Path = tuple[Step, ...]


class _Absent(msgspec.Struct, frozen=True):
    pass


ABSENT: Final = _Absent()


class LostField(msgspec.Struct, frozen=True, omit_defaults=True):
    """``at``: the path of the field. ``now``: the value after the round trip, ``was``: the value before it; unset where
    there is none."""

    at: tuple[str | tuple[str], ...]
    now: Any = msgspec.UNSET
    was: Any = msgspec.UNSET


_PARTS: Final = ("spec", "status")
_lost_fields_decoder: Final = msgspec.json.Decoder(tuple[LostField, ...])
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def find_lost_fields(now: Object, was: Object, linked: Sequence[frozenset[Path]] = ()) -> tuple[LostField, ...]:
    """The fields whose value before the round trip (``was``) differs from the value after it (``now``), and the fields
    that are linked to them."""
    lost = [LostField(at, _unset(new), _unset(old)) for at, new, old in _differences((), now, was)]
    for paths in linked:
        if any(_is_below(field, paths) for field in lost):
            lost += _kept_links(now, was, paths)
    return tuple(lost)


def restore_lost_fields(
    obj: Object, lost_fields: Sequence[LostField], linked: Sequence[frozenset[Path]] = ()
) -> Object:
    """``obj`` with its lost fields, except those that have changed since the round trip."""
    for group in _grouped(lost_fields, linked):
        if all(_is_unchanged(obj, field) for field in group):
            for field in group:
                obj = _put(obj, field.at, field.was)
    return obj


def encode_lost_fields(lost_fields: Sequence[LostField]) -> str:
    return _encode(lost_fields).decode()


def decode_lost_fields(text: str) -> tuple[LostField, ...] | None:
    """None if :func:`encode_lost_fields` cannot have written the text: any client can write annotations."""
    try:
        lost_fields = _lost_fields_decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return lost_fields if all(map(_is_inside, lost_fields)) else None


def _is_inside(field: LostField) -> bool:
    """Whether it is a field in the spec or the status. Other fields, such as those of the metadata, are not
    restored."""
    return (
        len(field.at) > 1 and field.at[0] in _PARTS and isinstance(field.at[1], str) and isinstance(field.at[-1], str)
    )


def _differences(at: Path, now: Any, was: Any) -> Iterator[tuple[Path, Any, Any]]:
    if now == was and type(now) is type(was):
        return
    if isinstance(now, dict) and isinstance(was, dict):
        for name in sorted({*now, *was}):
            yield from _differences((*at, name), now.get(name, ABSENT), was.get(name, ABSENT))
        return
    if isinstance(now, list) and isinstance(was, list):
        now_items, was_items = _named(now), _named(was)
        if now_items is not None and was_items is not None and list(now_items) == list(was_items):
            for name in now_items:
                yield from _differences((*at, (name,)), now_items[name], was_items[name])
            return
    yield at, now, was


def _named(items: list[Any]) -> dict[str, Any] | None:
    """Items by name; None if an item has no name or two names are equal."""
    found = {each["name"]: each for each in items if isinstance(each, dict) and isinstance(each.get("name"), str)}
    return found if len(found) == len(items) else None


def _grouped(lost_fields: Sequence[LostField], linked: Sequence[frozenset[Path]]) -> list[list[LostField]]:
    groups: dict[int, list[LostField]] = {}
    for index, field in enumerate(lost_fields):
        link = next((number for number, paths in enumerate(linked) if _is_below(field, paths)), len(linked) + index)
        groups.setdefault(link, []).append(field)
    return list(groups.values())


def _is_below(field: LostField, paths: frozenset[Path]) -> bool:
    return any(field.at[: len(path)] == path for path in paths)


def _kept_links(now: Object, was: Object, paths: frozenset[Path]) -> Iterator[LostField]:
    for path in sorted(paths, key=str):
        value = _value_at(was, path)
        if value is not ABSENT and value == _value_at(now, path):
            yield LostField(path, value, value)


def _is_unchanged(obj: Object, field: LostField) -> bool:
    """Whether the field has the value that it had after the round trip."""
    container = _value_at(obj, field.at[:-1])
    found = _below(container, field.at[-1])
    return isinstance(container, dict) and bool(found == (ABSENT if field.now is msgspec.UNSET else field.now))


def _value_at(obj: Object, at: Sequence[Step]) -> Any:
    found: Any = obj
    for step in at:
        found = _below(found, step)
    return found


def _below(container: Any, step: Step) -> Any:
    if isinstance(step, str):
        return container.get(step, ABSENT) if isinstance(container, dict) else ABSENT
    items = (_named(container) if isinstance(container, list) else None) or {}
    return items.get(step[0], ABSENT)


def _put(container: Any, at: Sequence[Step], value: Any) -> Any:
    """A copy of ``container`` with one field changed; the rest is shared."""
    step, rest = at[0], at[1:]
    if isinstance(step, tuple):
        return [_put(each, rest, value) if each["name"] == step[0] else each for each in container]
    if rest:
        return {**container, step: _put(container[step], rest, value)}
    if value is msgspec.UNSET:
        return {name: below for name, below in container.items() if name != step}
    return {**container, step: value}


def _unset(value: Any) -> Any:
    return msgspec.UNSET if value is ABSENT else value
