"""The served kinds, read from discovery documents: their paths and verbs.

Of a kind with several versions, controllers watch and delete the *preferred* one; an object reference may name any of
them. A version that the API server marks as stale (an aggregated API server did not respond) is in ``failed``, so that
a controller that needs all kinds can detect that some are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from headgate.kube.api_resources import APIResource

Object = dict[str, Any]


class DiscoveredKind(msgspec.Struct, frozen=True):
    resource: APIResource
    kind: str
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        return f"{self.resource.group}/{self.resource.version}" if self.resource.group else self.resource.version

    def allows(self, *verbs: str) -> bool:
        return self.verbs.issuperset(verbs)


class DiscoveredKinds(msgspec.Struct, frozen=True):
    """``preferred`` has one row per kind; ``failed`` names the versions that could not be read."""

    preferred: tuple[DiscoveredKind, ...] = ()
    by_name: Mapping[tuple[str, str], DiscoveredKind] = {}
    failed: tuple[str, ...] = ()

    @classmethod
    def read(cls, documents: Iterable[Object]) -> DiscoveredKinds:
        """Reads aggregated discovery documents."""
        rows: dict[tuple[str, str], DiscoveredKind] = {}
        by_name: dict[tuple[str, str], DiscoveredKind] = {}
        failed: list[str] = []
        for document in documents:
            for group in document.get("items") or ():
                # The first version is the preferred one, and a resource belongs to the first version that has it.
                for row in _rows(group, failed):
                    rows.setdefault((row.resource.group, row.resource.plural), row)
                    by_name.setdefault((row.api_version, row.kind), row)
        return cls(tuple(rows.values()), by_name, tuple(failed))

    def find(self, api_version: str, kind: str) -> DiscoveredKind | None:
        """The kind that a reference names, in exactly that version."""
        return self.by_name.get((api_version, kind))


def _rows(group: Object, failed: list[str]) -> Iterator[DiscoveredKind]:
    name = (group.get("metadata") or {}).get("name", "")
    for version in group.get("versions") or ():
        if version.get("freshness") == "Stale":
            failed.append(f"{name}/{version['version']}")
        for each in version.get("resources") or ():
            resource = APIResource(name, version["version"], each["resource"], each.get("scope") == "Namespaced")
            yield DiscoveredKind(resource, (each.get("responseKind") or {}).get("kind", ""), frozenset(each["verbs"]))
