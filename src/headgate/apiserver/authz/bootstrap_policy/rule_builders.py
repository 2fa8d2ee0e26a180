"""Shorthand for the tables of roles: several names in one string, ``core`` for the core group."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.authz.rules import PolicyRule

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
READ_WRITE: Final = "create delete deletecollection get list patch update watch"


def on(verbs: str, groups: str, resources: str, names: str = "") -> PolicyRule:
    """Verbs on resources."""
    named = tuple("" if group == "core" else group for group in groups.split())
    return PolicyRule(tuple(verbs.split()), named, tuple(resources.split()), tuple(names.split()))


def urls(verbs: str, paths: str) -> PolicyRule:
    """Verbs on paths that are not resources."""
    return PolicyRule(tuple(verbs.split()), urls=tuple(paths.split()))
