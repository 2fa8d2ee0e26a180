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
    """One package that cannot be used does not keep the others away."""
    entries: list[PluginEntry] = []
    builders: dict[str, Build] = {}
    problems: list[str] = []
    every = sorted(entry_points(group=GROUP) if registered is None else registered, key=lambda each: each.name)
    times = Counter(each.name for each in every)
    for each in every:
        if times[each.name] > 1:
            # Which of them is found first depends on where the packages are installed: none is used.
            problems.append(
                f"plugin {each.name} of {_origin(each)} has the name of one of another package: uninstall one of them"
            )
            continue
        loaded = _load(each)
        if isinstance(loaded, str):
            problems.append(loaded)
            continue
        entry, build = loaded
        joined = with_plugins([*entries, entry])
        if isinstance(joined, str):
            problems.append(joined)
            continue
        entries.append(entry)
        builders[entry.name] = build
    registry = with_plugins(entries)
    assert not isinstance(registry, str)  # each was tried above
    return InstalledPlugins(registry, builders, tuple(problems))


def _origin(registered: EntryPoint) -> str:
    return registered.dist.name if registered.dist is not None else registered.module


def _load(registered: EntryPoint) -> tuple[PluginEntry, Build] | str:
    origin = _origin(registered)
    if _NAME.fullmatch(registered.name) is None:
        return f"plugin {registered.name!r} of {origin}: a name has up to 63 letters, digits, '-', '_' and '.'"
    try:
        build = registered.load()
        points = points_served(build)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the module does while it is imported, sys.exit included
        return f"plugin {registered.name} of {origin} cannot be loaded: {error_with_type(error)}"
    if not points:
        return f"plugin {registered.name} of {origin} serves no extension point: {registered.value} has no such method"
    return PluginEntry(registered.name, points, origin), build
