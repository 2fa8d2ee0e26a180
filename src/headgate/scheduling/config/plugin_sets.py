"""Which plugins run at which extension point: a profile's ``plugins`` merged with the defaults.

Three layers decide, in this order: the list of the extension point, ``multiPoint``, the defaults. Within one layer
``enabled`` wins over ``disabled``. The order at an extension point is: plugins of ``multiPoint`` that the point's list
overrides, the other plugins of ``multiPoint``, the other plugins of the point's list. kube-scheduler does the same; it
reports unknown names at start and without field paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.kube.field_errors import FieldError, FieldErrors, FieldErrorType, duplicate, invalid
from headgate.scheduling.config.plugin_registry import DEFAULT_ENABLED, OBSOLETE_POINTS, POINTS, Registry
from headgate.scheduling.config.strict_decoding import Object, similar
from headgate.scheduling.config.types import Enabled

MULTI_POINT: Final = "multiPoint"
_ALL: Final = "*"


class EnabledPlugin(msgspec.Struct, frozen=True):
    """A plugin of a list; ``path`` is where the document enables it, or empty for a default."""

    name: str
    weight: int = 0
    path: str = ""


class PluginSet(msgspec.Struct, frozen=True):
    """One list of plugins of a profile: of an extension point, or of ``multiPoint``."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()

    @property
    def disables_all(self) -> bool:
        return _ALL in self.disabled


def expand_multi_point(
    plugins: Object, path: str, registry: Registry, errors: FieldErrors
) -> Mapping[str, tuple[Enabled, ...]]:
    """What runs at each point, in order. Weights stand where nodes are scored, elsewhere they are 0."""
    choices = {point: _read(plugins.get(point), f"{path}.{point}") for point in (*POINTS, MULTI_POINT)}
    for point, choice in choices.items():
        errors += _wrong_names(choice, None if point == MULTI_POINT else point, registry)
    everywhere = _with_defaults(choices[MULTI_POINT])
    weights = _weights(choices["score"], everywhere)
    twice: dict[str, FieldError] = {}
    points: dict[str, tuple[Enabled, ...]] = {}
    for point in POINTS:
        names, repeated = _at(point, choices[point], everywhere, registry)
        for each in repeated:
            twice.setdefault(each.path, duplicate(each.path, each.name))
        points[point] = tuple((name, weights[name] if point == "score" else 0) for name in names)
    errors += twice.values()
    return points


def unknown_disabled(plugins: Object, path: str, registry: Registry) -> Iterator[str]:
    """Where the document disables what does not exist: harmless, and hardly meant."""
    for point in (*POINTS, MULTI_POINT):
        for i, each in enumerate(plugins.get(point, {}).get("disabled", ())):
            name = (each or {}).get("name", "")
            if name != _ALL and name not in registry:
                yield f"{path}.{point}.disabled[{i}].name: there is no plugin {name!r}{_meant(name, registry)}"


def _read(given: Object | None, path: str) -> PluginSet:
    given = given or {}
    return PluginSet(
        tuple(
            EnabledPlugin((each or {}).get("name", ""), (each or {}).get("weight", 0), f"{path}.enabled[{i}]")
            for i, each in enumerate(given.get("enabled", ()))
        ),
        tuple((each or {}).get("name", "") for each in given.get("disabled", ())),
    )


def _wrong_names(choice: PluginSet, point: str | None, registry: Registry) -> FieldErrors:
    errors: FieldErrors = []
    for each in choice.enabled:
        at = f"{each.path}.name"
        entry = registry.get(each.name)
        if entry is None:
            detail = OBSOLETE_POINTS.get(each.name) or f"no such plugin{_meant(each.name, registry)}"
            errors.append(FieldError(FieldErrorType.NOT_FOUND, at, each.name, detail))
        elif point is not None and point not in entry.points:
            serves = ", ".join(name for name in POINTS if name in entry.points)
            errors.append(invalid(at, each.name, f"the plugin does not serve {point}; it serves {serves}"))
        elif each.weight < 0 and point in ("score", None) and "score" in entry.points:
            errors.append(invalid(f"{each.path}.weight", each.weight, "must not be negative"))
    return errors


def _meant(name: str, registry: Registry) -> str:
    close = similar(name, registry)
    return f"; is it {close}?" if close else ""


def _with_defaults(choice: PluginSet) -> tuple[EnabledPlugin, ...]:
    """``multiPoint`` on top of the defaults. A default that is enabled anew keeps its place."""
    anew = {each.name: each for each in choice.enabled}
    kept: list[EnabledPlugin] = []
    if not choice.disables_all:
        kept = [
            anew.get(name, EnabledPlugin(name, weight))
            for name, weight in DEFAULT_ENABLED
            if name not in choice.disabled
        ]
    placed = {each.path for each in kept if each.path}
    return (*kept, *(each for each in choice.enabled if each.path not in placed))


def _at(
    point: str, choice: PluginSet, everywhere: Sequence[EnabledPlugin], registry: Registry
) -> tuple[list[str], list[EnabledPlugin]]:
    """The plugins at a point in order, and those that are enabled twice there."""
    serving = [each for each in choice.enabled if _serves(each, point, registry)]
    own = list(dict.fromkeys(each.name for each in serving))
    repeated = _repeated(serving)
    if choice.disables_all:
        return own, repeated
    spread_out = [
        each
        for each in everywhere
        if _serves(each, point, registry) and each.name not in choice.disabled and each.name not in own
    ]
    overridden = {each.name for each in everywhere if each.name in own and each.name not in choice.disabled}
    names = [
        *(name for name in own if name in overridden),
        *dict.fromkeys(each.name for each in spread_out),
        *(name for name in own if name not in overridden),
    ]
    return names, [*repeated, *_repeated(spread_out)]


def _serves(each: EnabledPlugin, point: str, registry: Registry) -> bool:
    entry = registry.get(each.name)
    return entry is not None and point in entry.points


def _repeated(enabled: Sequence[EnabledPlugin]) -> list[EnabledPlugin]:
    counts = Counter(each.name for each in enabled)
    last = {each.name: each for each in enabled}
    return [last[name] for name, count in counts.items() if count > 1]


def _weights(score: PluginSet, everywhere: Sequence[EnabledPlugin]) -> Mapping[str, int]:
    """The point's own weight goes before that of ``multiPoint``; none counts as 1."""
    weights: dict[str, int] = {}
    for each in (*score.enabled, *everywhere):
        weights.setdefault(each.name, each.weight or 1)
    return weights
