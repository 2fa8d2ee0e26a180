"""Quotas, and the Cohort that may have some of its own: frozen values from the API.

A quota is an amount of one resource in one flavor, in units (``kube/amounts.py``). Where a cohort stands among others
is ``tree.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headgate.quota.reading import Unreadable, Wire, amount, part, parts, text

FlavorResource = tuple[str, str]
"""A flavor and a resource: what quotas are of, and what usage is counted in."""
Usage = Mapping[FlavorResource, int]


class Quota(msgspec.Struct, frozen=True):
    """``None`` for a limit that there is none of."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class ResourceGroup(msgspec.Struct, frozen=True):
    """Resources that come from one flavor together, and the flavors in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class Cohort(msgspec.Struct, frozen=True):
    """``parent`` is empty at a root."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = {}


def read_cohort(wire: Wire) -> Cohort | str:
    """The cohort, or why it cannot be counted with."""
    try:
        metadata, spec = part(wire, "metadata"), part(wire, "spec")
        _, quotas = read_groups(spec)
        return Cohort(text(metadata, "name"), text(spec, "parentName", path="spec."), quotas)
    except Unreadable as problem:
        return str(problem)


def read_groups(spec: Wire) -> tuple[tuple[ResourceGroup, ...], dict[FlavorResource, Quota]]:
    """``spec.resourceGroups``, of a ClusterQueue or a Cohort."""
    groups: list[ResourceGroup] = []
    quotas: dict[FlavorResource, Quota] = {}
    for path, wire in parts(spec, "resourceGroups", "spec."):
        covered = wire.get("coveredResources")
        if not isinstance(covered, list | tuple) or not all(isinstance(each, str) for each in covered):
            raise Unreadable(f"{path}coveredResources: must be a list of names")
        flavors: list[str] = []
        for flavor_path, flavor in parts(wire, "flavors", path):
            name = text(flavor, "name", path=flavor_path)
            flavors.append(name)
            listed = dict(_quotas_of(flavor, flavor_path))
            if set(listed) != set(covered):
                raise Unreadable(f"{flavor_path}resources: must be {', '.join(covered)}, as coveredResources says")
            for resource, quota in listed.items():
                if (name, resource) in quotas:
                    raise Unreadable(f"{flavor_path}name: {name} has a quota for {resource} twice")
                quotas[name, resource] = quota
        groups.append(ResourceGroup(tuple(covered), tuple(flavors)))
    named = [resource for group in groups for resource in group.resources]
    if len(named) != len(set(named)):
        raise Unreadable("spec.resourceGroups: a resource belongs to one group only")
    return tuple(groups), quotas


def _quotas_of(flavor: Wire, path: str) -> Iterator[tuple[str, Quota]]:
    for resource_path, wire in parts(flavor, "resources", path):
        name = text(wire, "name", path=resource_path)
        nominal = wire.get("nominalQuota")
        limits = (wire.get("borrowingLimit"), wire.get("lendingLimit"))
        borrowing, lending = (
            None if value is None else amount(name, value, f"{resource_path}{field}")
            for field, value in zip(("borrowingLimit", "lendingLimit"), limits, strict=True)
        )
        yield (
            name,
            Quota(0 if nominal is None else amount(name, nominal, f"{resource_path}nominalQuota"), borrowing, lending),
        )
