"""Plugins of other packages: those that are installed beside us and register in the entry point group.

A package says ``[project.entry-points."headgate.plugins"]`` and ``Name = "module:Class"``. The class is called with the
arguments of its ``pluginConfig`` (a mapping, empty if there are none) and serves the extension points that it has
methods for. Importing a package runs its code: only installed packages are looked at, never files that are named in a
configuration. docs/plugins.md builds one step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from headgate.scheduling.configuration.registry import Entry, Registry, points_served, with_plugins

GROUP: Final = "headgate.plugins"
Build = Callable[[Mapping[str, Any]], Any]


class Found(msgspec.Struct, frozen=True):
    """``builders`` make the plugins from elsewhere; ``problems`` are packages that cannot be used, and why."""

    registry: Registry
    builders: Mapping[str, Build]
    problems: tuple[str, ...] = ()


def find_plugins(registered: Iterable[EntryPoint] | None = None) -> Found:
    """One package that cannot be used does not keep the others away."""
    entries: list[Entry] = []
    builders: dict[str, Build] = {}
    problems: list[str] = []
    for each in sorted(entry_points(group=GROUP) if registered is None else registered, key=lambda each: each.name):
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
    return Found(registry, builders, tuple(problems))


def _load(registered: EntryPoint) -> tuple[Entry, Build] | str:
    origin = registered.dist.name if registered.dist is not None else registered.module
    try:
        build = registered.load()
    except Exception as error:  # whatever a stranger's module does while it is imported
        return f"plugin {registered.name} of {origin} cannot be loaded: {type(error).__name__}: {error}"
    points = points_served(build)
    if not points:
        return f"plugin {registered.name} of {origin} serves no extension point: {registered.value} has no such method"
    return Entry(registered.name, points, origin), build
