"""``spec.resourceGroups`` of ClusterQueues and Cohorts, and the Cohort: frozen values from the API.

A quota is an amount of one resource in one flavor: an integer in millicores for cpu, in whole units for all other
resources (``kube/resource_amounts.py``). ``quota/cache/quota_tree.py`` builds the tree of cohorts and ClusterQueues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headgate.quota.api.wire_reader import InvalidObject, JSONObject, read_amount, read_object, read_objects, read_text

FlavorResource = tuple[str, str]
"""The name of a flavor, and a resource: the key of quotas and usage. As in Kueue's code, variables are named ``fr``."""
Usage = Mapping[FlavorResource, int]
"""How much is used of each resource in each flavor."""


class FlavorQuota(msgspec.Struct, frozen=True):
    """The quota of one resource in one flavor. A limit of ``None`` means that there is no limit."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class ResourceGroup(msgspec.Struct, frozen=True):
    """Resources that are assigned one flavor together, and the flavors in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class Cohort(msgspec.Struct, frozen=True):
    """``parent`` is empty at a root."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, FlavorQuota] = {}


def read_cohort(obj: JSONObject) -> Cohort | str:
    """The cohort, or a text that says why it is invalid."""
    try:
        metadata, spec = read_object(obj, "metadata"), read_object(obj, "spec")
        _, quotas = read_resource_groups(spec)
        return Cohort(read_text(metadata, "name"), read_text(spec, "parentName", path="spec."), quotas)
    except InvalidObject as problem:
        return str(problem)


def read_resource_groups(spec: JSONObject) -> tuple[tuple[ResourceGroup, ...], dict[FlavorResource, FlavorQuota]]:
    """The groups and the quotas in ``spec.resourceGroups`` of a ClusterQueue or a Cohort."""
    groups: list[ResourceGroup] = []
    quotas: dict[FlavorResource, FlavorQuota] = {}
    for path, obj in read_objects(spec, "resourceGroups", "spec."):
        covered = obj.get("coveredResources")
        if not isinstance(covered, list | tuple) or not all(isinstance(each, str) for each in covered):
            raise InvalidObject(f"{path}coveredResources: must be a list of names")
        flavors: list[str] = []
        for flavor_path, flavor in read_objects(obj, "flavors", path):
            name = read_text(flavor, "name", path=flavor_path)
            flavors.append(name)
            listed = dict(_quotas_of(flavor, flavor_path))
            if set(listed) != set(covered):
                raise InvalidObject(f"{flavor_path}resources: must be {', '.join(covered)}, as coveredResources says")
            for resource, quota in listed.items():
                if (name, resource) in quotas:
                    raise InvalidObject(f"{flavor_path}name: {name} has a quota for {resource} twice")
                quotas[name, resource] = quota
        groups.append(ResourceGroup(tuple(covered), tuple(flavors)))
    named = [resource for group in groups for resource in group.resources]
    if len(named) != len(set(named)):
        raise InvalidObject("spec.resourceGroups: a resource belongs to one group only")
    return tuple(groups), quotas


def _quotas_of(flavor: JSONObject, path: str) -> Iterator[tuple[str, FlavorQuota]]:
    for resource_path, obj in read_objects(flavor, "resources", path):
        name = read_text(obj, "name", path=resource_path)
        nominal = obj.get("nominalQuota")
        limits = (obj.get("borrowingLimit"), obj.get("lendingLimit"))
        borrowing, lending = (
            None if value is None else read_amount(name, value, f"{resource_path}{field}")
            for field, value in zip(("borrowingLimit", "lendingLimit"), limits, strict=True)
        )
        yield (
            name,
            FlavorQuota(
                0 if nominal is None else read_amount(name, nominal, f"{resource_path}nominalQuota"), borrowing, lending
            ),
        )
