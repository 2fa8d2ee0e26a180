"""The table of served kinds: lookup of a kind, and the order of groups and versions.

A table never changes. When custom kinds are added or removed at run time, the server builds a new table
(:meth:`KindTable.with_replaced`) and replaces its reference to the old one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.apiserver.kinds.kind import ServedKind
from headgate.kube.schema import GroupVersionKind

# Clients take the first group that knows a short name, so the order is part of the interface. Groups that are not
# named here come after these, by name.
_GROUP_ORDER: Final = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
_GROUP_RANK: Final = {name: rank for rank, name in enumerate(_GROUP_ORDER)}

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY: Final = {None: 2, "beta": 1, "alpha": 0}


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    return (0, -_STABILITY[match[2]], -int(match[1]), -int(match[3] or 0), "")


class APIGroup(msgspec.Struct, frozen=True):
    """An API group with its versions, the preferred one first; the kinds of a version are sorted by plural."""

    name: str
    versions: tuple[tuple[str, tuple[ServedKind, ...]], ...]

    @property
    def preferred_version(self) -> str:
        return self.versions[0][0]


class KindTable:
    """All served kinds. If two of them have the same group, version and plural, the later one is served."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self._by_resource: Final = {(each.group, each.version, each.plural): each for each in kinds}
        self._by_gvk: Final = {each.gvk: each for each in self._by_resource.values()}
        self._groups: tuple[APIGroup, ...] | None = None
        self._by_stored_resource: Final[dict[str, tuple[ServedKind, ...]]] = {}
        for each in self._by_resource.values():
            self._by_stored_resource[each.resource] = (*self._by_stored_resource.get(each.resource, ()), each)

    def by_resource(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._by_resource.get((group, version, plural))

    def by_gvk(self, gvk: GroupVersionKind) -> ServedKind | None:
        return self._by_gvk.get(gvk)

    def kinds_stored_as(self, resource: str) -> tuple[ServedKind, ...]:
        """All versions of a stored resource (``pods``, ``deployments.apps``) that are served."""
        return self._by_stored_resource.get(resource, ())

    def stored_kind(self, kind: ServedKind) -> ServedKind:
        """The served kind of the version in which objects of ``kind`` are stored."""
        group, plural = kind.stored_as
        return self._by_resource.get((group, kind.stored_version, plural), kind)

    def kinds(self) -> tuple[ServedKind, ...]:
        return tuple(self._by_resource.values())

    def stored_resources(self) -> tuple[str, ...]:
        """All resources that are stored: ``pods``, ``deployments.apps``."""
        return tuple(name for name, kinds in self._by_stored_resource.items() if any(kind.is_stored for kind in kinds))

    def groups(self) -> tuple[APIGroup, ...]:
        """In the order of discovery; the core group, whose name is empty, comes first."""
        if self._groups is None:
            self._groups = _grouped(self._by_resource.values())
        return self._groups

    def group(self, name: str) -> APIGroup | None:
        return next((each for each in self.groups() if each.name == name), None)

    def with_replaced(self, old: Iterable[ServedKind], new: Iterable[ServedKind]) -> KindTable:
        """A table with the kinds ``new`` in place of ``old``."""
        removed, added = tuple(old), tuple(new)
        if removed == added:
            return self
        table = KindTable(())
        table._by_resource.update(self._by_resource)
        table._by_gvk.update(self._by_gvk)
        table._by_stored_resource.update(self._by_stored_resource)
        for each in removed:
            table._by_resource.pop((each.group, each.version, each.plural), None)
            table._by_gvk.pop(each.gvk, None)
            rest = tuple(kind for kind in table._by_stored_resource.get(each.resource, ()) if kind.gvk != each.gvk)
            table._by_stored_resource[each.resource] = rest
            if not rest:
                del table._by_stored_resource[each.resource]
        for each in added:
            table._by_resource[each.group, each.version, each.plural] = each
            table._by_gvk[each.gvk] = each
            table._by_stored_resource[each.resource] = (*table._by_stored_resource.get(each.resource, ()), each)
        return table


def _grouped(kinds: Iterable[ServedKind]) -> tuple[APIGroup, ...]:
    tree: dict[str, dict[str, list[ServedKind]]] = {}
    for each in kinds:
        tree.setdefault(each.group, {}).setdefault(each.version, []).append(each)
    names = sorted(tree, key=lambda name: (_GROUP_RANK.get(name, len(_GROUP_RANK)), name))
    return tuple(
        APIGroup(
            name,
            tuple(
                (version, tuple(sorted(tree[name][version], key=lambda kind: kind.plural)))
                for version in sorted(tree[name], key=version_order)
            ),
        )
        for name in names
    )
