"""The seven kinds as CustomResourceDefinitions: v1beta2 is stored, v1beta1 is served where it can be converted.

A server that only renames versions would silently lose fields (``cohort``, ``priorityClassName``), so v1beta1 is served
in the embedded server, or where the conversion webhook is configured (``runtime/webhooks/``). ``is_ours`` distinguishes
these definitions from Kueue's own, which are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from headgate.kube.api_resources import APIResource
from headgate.kube.crd_builder import Object, crd_version, custom_resource_definition
from headgate.quota.kinds import names, queue_schemas, workload_schemas
from headgate.quota.names import GROUP

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
HEADGATE: Final = "headgate"
_OUTDATED: Final = "This version is deprecated. Use v1beta2 instead."


class _ByVersion(Protocol):
    def __call__(self, *, older: bool) -> Object: ...


class _Row(msgspec.Struct, frozen=True):
    kind: str
    resource: APIResource
    short: tuple[str, ...]
    schema: _ByVersion
    has_status: bool = True
    columns: Callable[..., list[Object]] | None = None


_ROWS: Final = (
    _Row(
        "ResourceFlavor",
        names.RESOURCE_FLAVORS,
        ("flavor", "flavors", "rf"),
        queue_schemas.resource_flavor,
        has_status=False,
    ),
    _Row(
        "ClusterQueue",
        names.CLUSTER_QUEUES,
        ("cq",),
        queue_schemas.cluster_queue,
        columns=queue_schemas.cluster_queue_columns,
    ),
    _Row("Cohort", names.COHORTS, ("co",), queue_schemas.cohort),
    _Row(
        "LocalQueue",
        names.LOCAL_QUEUES,
        ("queue", "queues", "lq"),
        queue_schemas.local_queue,
        columns=queue_schemas.local_queue_columns,
    ),
    _Row(
        "Workload",
        names.WORKLOADS,
        ("kwl", "kueueworkload", "kueueworkloads"),
        workload_schemas.workload,
        columns=workload_schemas.workload_columns,
    ),
    _Row(
        "WorkloadPriorityClass",
        names.PRIORITY_CLASSES,
        ("wpc",),
        workload_schemas.priority_class,
        has_status=False,
        columns=workload_schemas.priority_class_columns,
    ),
    _Row("AdmissionCheck", names.ADMISSION_CHECKS, ("ac",), workload_schemas.admission_check),
)


def definitions(*, with_older: bool) -> tuple[Object, ...]:
    """``with_older``: whether v1beta1 is served, too."""
    return tuple(_definition(row, with_older=with_older) for row in _ROWS)


def is_ours(found: Mapping[str, Any]) -> bool:
    """Whether this definition, as a server has it, is one of these and not Kueue's own."""
    labels = (found.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(MANAGED_BY) == HEADGATE)


def adapted(wanted: Object, found: Object | None) -> Object | None:
    """The definition to install in place of ``found``; None if that is Kueue's own. If v1beta1 is served, it stays
    served."""
    if found is None:
        return wanted
    if not is_ours(found):
        return None
    return serving_all_versions(wanted) if all(each.get("served") for each in found["spec"]["versions"]) else wanted


def serving_all_versions(found: Object) -> Object:
    """A definition with all its versions served."""
    spec = found["spec"]
    return {**found, "spec": {**spec, "versions": [{**each, "served": True} for each in spec["versions"]]}}


def _definition(row: _Row, *, with_older: bool) -> Object:
    older = crd_version(
        names.OLDER,
        row.schema(older=True),
        stored=False,
        served=with_older,
        deprecated=True,
        deprecationWarning=_OUTDATED,
        **_version_options(row, older=True),
    )
    stored = crd_version(names.STORED, row.schema(older=False), stored=True, **_version_options(row, older=False))
    definition = custom_resource_definition(
        GROUP,
        row.kind,
        row.resource.plural,
        row.short,
        namespaced=row.resource.namespaced,
        versions=[older, stored],
    )
    return {**definition, "metadata": {**definition["metadata"], "labels": {MANAGED_BY: HEADGATE}}}


def _version_options(row: _Row, *, older: bool) -> Object:
    status: Object = {"subresources": {"status": {}}} if row.has_status else {}
    columns = row.columns(older=older) if row.columns is not None else []
    return {**status, **({"additionalPrinterColumns": columns} if columns else {})}
