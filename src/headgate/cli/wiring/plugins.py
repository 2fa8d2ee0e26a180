"""Scheduler plugins of other packages, found by their entry point group.

A package declares ``[project.entry-points."headgate.plugins"]`` and ``Name = "module:Class"``. The class is called with
the arguments of its ``pluginConfig`` (a mapping, empty if there are none) and serves the extension points that it has
methods for. Importing a package runs its code: only installed packages are considered, never files that a configuration
names. docs/plugins.md builds one step by step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from headgate.scheduling.config.plugin_registry import PluginEntry, Registry, points_served, with_plugins
from headgate.scheduling.framework.result_checks import error_with_type

GROUP: Final = "headgate.plugins"
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
Build = Callable[[Mapping[str, Any]], Any]


class InstalledPlugins(msgspec.Struct, frozen=True):
    """``builders`` make the plugins of other packages; ``problems`` are packages that cannot be used, and why."""

    registry: Registry
    builders: Mapping[str, Build]
    problems: tuple[str, ...] = ()


def find_plugins(registered: Iterable[EntryPoint] | None = None) -> InstalledPlugins:
    """A package that cannot be used does not affect the others."""
    entries: list[PluginEntry] = []
    builders: dict[str, Build] = {}
    problems: list[str] = []
    all_entries = sorted(entry_points(group=GROUP) if registered is None else registered, key=lambda each: each.name)
    counts = Counter(each.name for each in all_entries)
    for each in all_entries:
        if counts[each.name] > 1:
            # Which one is found first depends on where the packages are installed, so none is used.
            problems.append(
                f"plugin {each.name} of {_origin(each)}: another package has a plugin of this name; uninstall one"
            )
            continue
        loaded = _load(each)
        if isinstance(loaded, str):
            problems.append(loaded)
            continue
        entry, build = loaded
        combined = with_plugins([*entries, entry])
        if isinstance(combined, str):
            problems.append(combined)
            continue
        entries.append(entry)
        builders[entry.name] = build
    registry = with_plugins(entries)
    assert not isinstance(registry, str)  # each was checked above
    return InstalledPlugins(registry, builders, tuple(problems))


def _origin(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else entry_point.module


def _load(entry_point: EntryPoint) -> tuple[PluginEntry, Build] | str:
    origin = _origin(entry_point)
    if _NAME.fullmatch(entry_point.name) is None:
        return f"plugin {entry_point.name!r} of {origin}: a name has up to 63 letters, digits, '-', '_' and '.'"
    try:
        build = entry_point.load()
        points = points_served(build)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the import may raise anything, including SystemExit
        return f"plugin {entry_point.name} of {origin} cannot be loaded: {error_with_type(error)}"
    if not points:
        return (
            f"plugin {entry_point.name} of {origin} serves no extension point: {entry_point.value} has no such method"
        )
    return PluginEntry(entry_point.name, points, origin), build
