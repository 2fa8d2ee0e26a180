"""Shorthand for the tables of roles: words in one string, ``core`` for the group without a name."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.access.rules import Rule

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
READ_WRITE: Final = "create delete deletecollection get list patch update watch"


def on(verbs: str, groups: str, resources: str, names: str = "") -> Rule:
    """Verbs on resources."""
    named = tuple("" if group == "core" else group for group in groups.split())
    return Rule(tuple(verbs.split()), named, tuple(resources.split()), tuple(names.split()))


def urls(verbs: str, paths: str) -> Rule:
    """Verbs on paths that are not resources."""
    return Rule(tuple(verbs.split()), urls=tuple(paths.split()))
