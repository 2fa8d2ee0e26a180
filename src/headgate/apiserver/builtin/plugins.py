"""The built-in plugins in the order in which a write meets them.

Two tables, because a write passes twice: plugins that may change an object run before it is prepared and validated,
those that only refuse run after. The order is a real server's; each row says for which writes its function is called.
After them come the steps that the server was handed by whoever started it (Headgate's own admission: ``Api.guests``),
then webhooks (``apiserver/admission.py``); ResourceQuota, which has the last word, is in ``apiserver/quota/``. Policies
are not here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

import msgspec

from headgate.apiserver.builtin import (
    claim_resize,
    default_classes,
    default_tolerations,
    limit_ranger,
    namespace_lifecycle,
    pod_security,
    priority,
    runtime_class,
    service_account,
    storage_protection,
    topology_labels,
)
from headgate.apiserver.builtin.attributes import Attributes, Object, Operation, Plugin, View
from headgate.kube import status

Phase = Literal["mutating", "validating"]

_EVERY: Final = ""
_CREATE: Final[tuple[Operation, ...]] = ("CREATE",)
_UPDATE: Final[tuple[Operation, ...]] = ("UPDATE",)
_DELETE: Final[tuple[Operation, ...]] = ("DELETE",)
_WRITE: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")

_CLAIMS: Final = "persistentvolumeclaims"
_PRIORITIES: Final = "priorityclasses.scheduling.k8s.io"
_ATTRIBUTES: Final = "volumeattributesclasses.storage.k8s.io"


class Row(msgspec.Struct, frozen=True):
    """``endpoint`` is a resource with its group, and its subresource after a slash; empty for every endpoint."""

    plugin: str
    operations: tuple[Operation, ...]
    endpoint: str
    run: Plugin


MUTATING: Final = (
    Row("NamespaceLifecycle", _WRITE, _EVERY, namespace_lifecycle.require_namespace),
    Row("NamespaceLifecycle", _DELETE, "namespaces", namespace_lifecycle.spare_immortal),
    Row("LimitRanger", _CREATE, "pods", limit_ranger.admit_pod),
    Row("LimitRanger", _UPDATE, "pods/resize", limit_ranger.admit_pod),
    Row("ServiceAccount", _CREATE, "pods", service_account.admit_new_pod),
    Row("Priority", _CREATE, "pods", priority.admit_new_pod),
    Row("Priority", _UPDATE, "pods", priority.keep_priority),
    Row("DefaultTolerationSeconds", _WRITE, "pods", default_tolerations.admit_pod),
    Row("DefaultStorageClass", _CREATE, _CLAIMS, default_classes.admit_claim),
    Row("StorageObjectInUseProtection", _CREATE, _CLAIMS, storage_protection.admit_new),
    Row("StorageObjectInUseProtection", _CREATE, "persistentvolumes", storage_protection.admit_new),
    Row("StorageObjectInUseProtection", _CREATE, _ATTRIBUTES, storage_protection.admit_new),
    Row("RuntimeClass", _CREATE, "pods", runtime_class.admit_new_pod),
    Row("DefaultIngressClass", _CREATE, "ingresses.networking.k8s.io", default_classes.admit_ingress),
    Row("PodTopologyLabels", _CREATE, "pods", topology_labels.admit_new_pod),
    Row("PodTopologyLabels", _CREATE, "pods/binding", topology_labels.admit_binding),
)
VALIDATING: Final = (
    Row("LimitRanger", _CREATE, "pods", limit_ranger.validate_pod),
    Row("LimitRanger", _UPDATE, "pods/resize", limit_ranger.validate_pod),
    Row("LimitRanger", _WRITE, _CLAIMS, limit_ranger.validate_claim),
    Row("ServiceAccount", _CREATE, "pods", service_account.validate_new_pod),
    Row("ServiceAccount", _UPDATE, "pods/ephemeralcontainers", service_account.validate_debugging),
    Row("PodSecurity", _WRITE, "namespaces", pod_security.validate_namespace),
    Row("Priority", _WRITE, _PRIORITIES, priority.validate_class),
    Row("PersistentVolumeClaimResize", _UPDATE, _CLAIMS, claim_resize.validate_claim),
    Row("RuntimeClass", _CREATE, "pods", runtime_class.validate_new_pod),
)


class Table:
    """The rows of both phases, found by what a write is."""

    def __init__(self, mutating: Sequence[Row] = (), validating: Sequence[Row] = ()) -> None:
        self._rows: Final[dict[Phase, Sequence[Row]]] = {"mutating": mutating, "validating": validating}
        self._found: Final[dict[tuple[Phase, Operation, status.GroupResource, str], tuple[Plugin, ...]]] = {}

    def mutate(self, attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
        """Let every plugin change ``new`` that wants to; the first refusal ends it."""
        return self._run("mutating", attributes, new, old, view)

    def validate(self, attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
        return self._run("validating", attributes, new, old, view)

    def _run(
        self, phase: Phase, attributes: Attributes, new: Object, old: Object | None, view: View
    ) -> status.ApiError | None:
        for plugin in self._concerned(phase, attributes):
            refusal = plugin(attributes, new, old, view)
            if refusal is not None:
                return refusal
        return None

    def _concerned(self, phase: Phase, attributes: Attributes) -> tuple[Plugin, ...]:
        key = (phase, attributes.operation, attributes.resource, attributes.subresource)
        found = self._found.get(key)
        if found is None:
            _, operation, resource, subresource = key
            endpoint = f"{resource}/{subresource}" if subresource else str(resource)
            rows = (row for row in self._rows[phase] if operation in row.operations)
            found = self._found[key] = tuple(row.run for row in rows if row.endpoint in (_EVERY, endpoint))
        return found


NAMES: Final = frozenset(row.plugin for row in (*MUTATING, *VALIDATING))


def builtin(disabled: Collection[str] = ()) -> Table:
    """The built-in plugins without those that are disabled by name."""
    mutating, validating = ([row for row in rows if row.plugin not in disabled] for rows in (MUTATING, VALIDATING))
    return Table(mutating, validating)
