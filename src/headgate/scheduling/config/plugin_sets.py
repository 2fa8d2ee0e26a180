"""Which plugins run at which extension point: a profile's ``plugins`` merged with the defaults.

Three layers decide, in this order: the list of the extension point, ``multiPoint``, the defaults. Within one layer
``enabled`` has precedence over ``disabled``. The order at an extension point is: plugins of ``multiPoint`` that the
point's list overrides, the other plugins of ``multiPoint``, the other plugins of the point's list. kube-scheduler does
the same; it reports unknown names at start and without field paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.kube.field_errors import FieldError, FieldErrors, FieldErrorType, duplicate, invalid
from headgate.kube.serializer.strict_decoding import Object, similar
from headgate.scheduling.config.plugin_registry import DEFAULT_ENABLED, OBSOLETE_POINTS, POINTS, QUEUE_METHODS, Registry
from headgate.scheduling.config.types import Enabled

MULTI_POINT: Final = "multiPoint"
_ALL: Final = "*"


class EnabledPlugin(msgspec.Struct, frozen=True):
    """A plugin of a list. ``path``: where the configuration file enables it; empty for a default."""

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
    """The plugins of each extension point, in order, with their weights; weights are 0 except at ``score``."""
    plugin_sets = {point: _read(plugins.get(point), f"{path}.{point}") for point in (*POINTS, MULTI_POINT)}
    for point, plugin_set in plugin_sets.items():
        errors += _name_errors(plugin_set, None if point == MULTI_POINT else point, registry)
    multi_point = _with_defaults(plugin_sets[MULTI_POINT])
    weights = _weights(plugin_sets["score"], multi_point)
    duplicates: dict[str, FieldError] = {}
    points: dict[str, tuple[Enabled, ...]] = {}
    for point in POINTS:
        names, repeated = _plugins_at(point, plugin_sets[point], multi_point, registry)
        for each in repeated:
            duplicates.setdefault(each.path, duplicate(each.path, each.name))
        points[point] = tuple((name, weights[name] if point == "score" else 0) for name in names)
    errors += duplicates.values()
    return points


def unknown_disabled(plugins: Object, path: str, registry: Registry) -> Iterator[str]:
    """Remarks about disabled plugins that do not exist: probably a typing error."""
    for point in (*POINTS, MULTI_POINT):
        for i, each in enumerate(plugins.get(point, {}).get("disabled", ())):
            name = (each or {}).get("name", "")
            if name != _ALL and name not in registry:
                yield f"{path}.{point}.disabled[{i}].name: there is no plugin {name!r}{_suggestion(name, registry)}"


def _read(given: Object | None, path: str) -> PluginSet:
    given = given or {}
    return PluginSet(
        tuple(
            EnabledPlugin((each or {}).get("name", ""), (each or {}).get("weight", 0), f"{path}.enabled[{i}]")
            for i, each in enumerate(given.get("enabled", ()))
        ),
        tuple((each or {}).get("name", "") for each in given.get("disabled", ())),
    )


def _name_errors(plugin_set: PluginSet, point: str | None, registry: Registry) -> FieldErrors:
    errors: FieldErrors = []
    for each in plugin_set.enabled:
        item_path = f"{each.path}.name"
        entry = registry.get(each.name)
        if entry is None:
            detail = OBSOLETE_POINTS.get(each.name) or f"no such plugin{_suggestion(each.name, registry)}"
            errors.append(FieldError(FieldErrorType.NOT_FOUND, item_path, each.name, detail))
        elif point is not None and point not in entry.points:
            serves = ", ".join(name for name in (*POINTS, *QUEUE_METHODS) if name in entry.points)
            errors.append(invalid(item_path, each.name, f"the plugin does not serve {point}; it serves {serves}"))
        elif entry.points.isdisjoint(POINTS):
            detail = "the plugin serves queues only: name it in a tier of a volcano-scheduler.conf"
            errors.append(invalid(item_path, each.name, detail))
        elif each.weight < 0 and point in ("score", None) and "score" in entry.points:
            errors.append(invalid(f"{each.path}.weight", each.weight, "must not be negative"))
    return errors


def _suggestion(name: str, registry: Registry) -> str:
    close = similar(name, registry)
    return f"; is it {close}?" if close else ""


def _with_defaults(plugin_set: PluginSet) -> tuple[EnabledPlugin, ...]:
    """``multiPoint`` merged with the defaults. A default plugin that is enabled again keeps its position."""
    enabled_again = {each.name: each for each in plugin_set.enabled}
    kept: list[EnabledPlugin] = []
    if not plugin_set.disables_all:
        kept = [
            enabled_again.get(name, EnabledPlugin(name, weight))
            for name, weight in DEFAULT_ENABLED
            if name not in plugin_set.disabled
        ]
    used_paths = {each.path for each in kept if each.path}
    return (*kept, *(each for each in plugin_set.enabled if each.path not in used_paths))


def _plugins_at(
    point: str, plugin_set: PluginSet, multi_point: Sequence[EnabledPlugin], registry: Registry
) -> tuple[list[str], list[EnabledPlugin]]:
    """The plugins at an extension point in order, and those that are enabled twice there."""
    serving = [each for each in plugin_set.enabled if _serves(each, point, registry)]
    of_point = list(dict.fromkeys(each.name for each in serving))
    repeated = _find_repeated(serving)
    if plugin_set.disables_all:
        return of_point, repeated
    inherited = [
        each
        for each in multi_point
        if _serves(each, point, registry) and each.name not in plugin_set.disabled and each.name not in of_point
    ]
    overridden = {each.name for each in multi_point if each.name in of_point and each.name not in plugin_set.disabled}
    names = [
        *(name for name in of_point if name in overridden),
        *dict.fromkeys(each.name for each in inherited),
        *(name for name in of_point if name not in overridden),
    ]
    return names, [*repeated, *_find_repeated(inherited)]


def _serves(each: EnabledPlugin, point: str, registry: Registry) -> bool:
    entry = registry.get(each.name)
    return entry is not None and point in entry.points


def _find_repeated(enabled: Sequence[EnabledPlugin]) -> list[EnabledPlugin]:
    counts = Counter(each.name for each in enabled)
    last = {each.name: each for each in enabled}
    return [last[name] for name, count in counts.items() if count > 1]


def _weights(score: PluginSet, multi_point: Sequence[EnabledPlugin]) -> Mapping[str, int]:
    """The weight at ``score`` has precedence over that of ``multiPoint``; a missing weight counts as 1."""
    weights: dict[str, int] = {}
    for each in (*score.enabled, *multi_point):
        weights.setdefault(each.name, each.weight or 1)
    return weights
