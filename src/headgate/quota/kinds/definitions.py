"""The seven kinds as CustomResourceDefinitions: v1beta2 is stored, v1beta1 is served where it can be converted.

A server with the conversion strategy ``None`` would silently lose fields (``cohort``, ``priorityClassName``), so
v1beta1 is served in the embedded server, or where the conversion webhook is configured (``runtime/webhooks/``).
``kube/crd_builder.py`` distinguishes these definitions from Kueue's own, which are not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from headgate.kube.api_resources import APIResource
from headgate.kube.crd_builder import Object, crd_version, custom_resource_definition, is_installed_by_headgate
from headgate.quota.kinds import names, queue_schemas, workload_schemas
from headgate.quota.names import GROUP

_DEPRECATION_WARNING: Final = "This version is deprecated. Use v1beta2 instead."


class _ByVersion(Protocol):
    def __call__(self, *, older: bool) -> Object: ...


class _KindDefinition(msgspec.Struct, frozen=True):
    kind: str
    resource: APIResource
    short_names: tuple[str, ...]
    schema: _ByVersion
    has_status: bool = True
    columns: Callable[..., list[Object]] | None = None


_KINDS: Final = (
    _KindDefinition(
        "ResourceFlavor",
        names.RESOURCE_FLAVORS,
        ("flavor", "flavors", "rf"),
        queue_schemas.resource_flavor,
        has_status=False,
    ),
    _KindDefinition(
        "ClusterQueue",
        names.CLUSTER_QUEUES,
        ("cq",),
        queue_schemas.cluster_queue,
        columns=queue_schemas.cluster_queue_columns,
    ),
    _KindDefinition("Cohort", names.COHORTS, ("co",), queue_schemas.cohort),
    _KindDefinition(
        "LocalQueue",
        names.LOCAL_QUEUES,
        ("queue", "queues", "lq"),
        queue_schemas.local_queue,
        columns=queue_schemas.local_queue_columns,
    ),
    _KindDefinition(
        "Workload",
        names.WORKLOADS,
        ("kwl", "kueueworkload", "kueueworkloads"),
        workload_schemas.workload,
        columns=workload_schemas.workload_columns,
    ),
    _KindDefinition(
        "WorkloadPriorityClass",
        names.PRIORITY_CLASSES,
        ("wpc",),
        workload_schemas.priority_class,
        has_status=False,
        columns=workload_schemas.priority_class_columns,
    ),
    _KindDefinition("AdmissionCheck", names.ADMISSION_CHECKS, ("ac",), workload_schemas.admission_check),
)


def definitions(*, with_older: bool) -> tuple[Object, ...]:
    """``with_older``: whether v1beta1 is served, too."""
    return tuple(_definition(entry, with_older=with_older) for entry in _KINDS)


def adapted(desired: Object, current: Object | None) -> Object | None:
    """The definition to install in place of ``current``; None if ``current`` is Kueue's own. If ``current`` serves
    v1beta1, so does the result."""
    if current is None:
        return desired
    if not is_installed_by_headgate(current):
        return None
    return serving_all_versions(desired) if all(each.get("served") for each in current["spec"]["versions"]) else desired


def serving_all_versions(found: Object) -> Object:
    """A definition with all its versions served."""
    spec = found["spec"]
    return {**found, "spec": {**spec, "versions": [{**each, "served": True} for each in spec["versions"]]}}


def _definition(entry: _KindDefinition, *, with_older: bool) -> Object:
    older = crd_version(
        names.OLDER,
        entry.schema(older=True),
        stored=False,
        served=with_older,
        deprecated=True,
        deprecationWarning=_DEPRECATION_WARNING,
        **_version_options(entry, older=True),
    )
    stored = crd_version(names.STORED, entry.schema(older=False), stored=True, **_version_options(entry, older=False))
    return custom_resource_definition(
        GROUP,
        entry.kind,
        entry.resource.plural,
        entry.short_names,
        namespaced=entry.resource.namespaced,
        versions=[older, stored],
    )


def _version_options(entry: _KindDefinition, *, older: bool) -> Object:
    status: Object = {"subresources": {"status": {}}} if entry.has_status else {}
    columns = entry.columns(older=older) if entry.columns is not None else []
    return {**status, **({"additionalPrinterColumns": columns} if columns else {})}
