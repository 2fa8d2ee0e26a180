"""The built-in plugins in the order in which they run.

There are two tables, because a write passes admission twice: mutating plugins run before the object is prepared and
validated, validating plugins after. The order is kube-apiserver's; each registration says for which writes it is
called. The plugins that the server was started with run next (``ServerState.extra_plugins``: Headgate's own admission),
then the webhooks (``apiserver/admission/admission_chain.py``), and ResourceQuota last
(``apiserver/registry/resource_quota.py``). Admission policies are not evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins import (
    claim_resize,
    default_classes,
    default_toleration_seconds,
    limit_ranger,
    namespace_lifecycle,
    pod_security,
    pod_topology_labels,
    priority,
    runtime_class,
    service_account,
    storage_object_in_use_protection,
)
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister, Operation, Plugin

Phase = Literal["mutating", "validating"]

_EVERY: Final = ""  # every endpoint
_CREATE: Final[tuple[Operation, ...]] = ("CREATE",)
_UPDATE: Final[tuple[Operation, ...]] = ("UPDATE",)
_DELETE: Final[tuple[Operation, ...]] = ("DELETE",)
_WRITE: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")

_CLAIMS: Final = "persistentvolumeclaims"
_PRIORITIES: Final = "priorityclasses.scheduling.k8s.io"
_ATTRIBUTES: Final = "volumeattributesclasses.storage.k8s.io"


class PluginRegistration(msgspec.Struct, frozen=True):
    """``endpoint`` is a resource with its group, and its subresource after a slash; empty for every endpoint."""

    plugin: str
    operations: tuple[Operation, ...]
    endpoint: str
    run: Plugin


MUTATING: Final = (
    PluginRegistration("NamespaceLifecycle", _WRITE, _EVERY, namespace_lifecycle.require_namespace),
    PluginRegistration(
        "NamespaceLifecycle", _DELETE, "namespaces", namespace_lifecycle.refuse_deletion_of_system_namespaces
    ),
    PluginRegistration("LimitRanger", _CREATE, "pods", limit_ranger.admit_pod),
    PluginRegistration("LimitRanger", _UPDATE, "pods/resize", limit_ranger.admit_pod),
    PluginRegistration("ServiceAccount", _CREATE, "pods", service_account.admit_new_pod),
    PluginRegistration("Priority", _CREATE, "pods", priority.admit_new_pod),
    PluginRegistration("Priority", _UPDATE, "pods", priority.keep_priority),
    PluginRegistration("DefaultTolerationSeconds", _WRITE, "pods", default_toleration_seconds.admit_pod),
    PluginRegistration("DefaultStorageClass", _CREATE, _CLAIMS, default_classes.admit_claim),
    PluginRegistration("StorageObjectInUseProtection", _CREATE, _CLAIMS, storage_object_in_use_protection.admit_new),
    PluginRegistration(
        "StorageObjectInUseProtection", _CREATE, "persistentvolumes", storage_object_in_use_protection.admit_new
    ),
    PluginRegistration(
        "StorageObjectInUseProtection", _CREATE, _ATTRIBUTES, storage_object_in_use_protection.admit_new
    ),
    PluginRegistration("RuntimeClass", _CREATE, "pods", runtime_class.admit_new_pod),
    PluginRegistration("DefaultIngressClass", _CREATE, "ingresses.networking.k8s.io", default_classes.admit_ingress),
    PluginRegistration("PodTopologyLabels", _CREATE, "pods", pod_topology_labels.admit_new_pod),
    PluginRegistration("PodTopologyLabels", _CREATE, "pods/binding", pod_topology_labels.admit_binding),
)
VALIDATING: Final = (
    PluginRegistration("LimitRanger", _CREATE, "pods", limit_ranger.validate_pod),
    PluginRegistration("LimitRanger", _UPDATE, "pods/resize", limit_ranger.validate_pod),
    PluginRegistration("LimitRanger", _WRITE, _CLAIMS, limit_ranger.validate_claim),
    PluginRegistration("ServiceAccount", _CREATE, "pods", service_account.validate_new_pod),
    PluginRegistration(
        "ServiceAccount", _UPDATE, "pods/ephemeralcontainers", service_account.validate_ephemeral_containers
    ),
    PluginRegistration("PodSecurity", _WRITE, "namespaces", pod_security.validate_namespace),
    PluginRegistration("Priority", _WRITE, _PRIORITIES, priority.validate_class),
    PluginRegistration("PersistentVolumeClaimResize", _UPDATE, _CLAIMS, claim_resize.validate_claim),
    PluginRegistration("RuntimeClass", _CREATE, "pods", runtime_class.validate_new_pod),
)


class AdmissionPlugins:
    """The registrations of both phases, found by operation and endpoint."""

    def __init__(
        self, mutating: Sequence[PluginRegistration] = (), validating: Sequence[PluginRegistration] = ()
    ) -> None:
        self._registrations: Final[dict[Phase, Sequence[PluginRegistration]]] = {
            "mutating": mutating,
            "validating": validating,
        }
        self._cache: Final[dict[tuple[Phase, Operation, api_errors.GroupResource, str], tuple[Plugin, ...]]] = {}

    def mutate(
        self, attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
    ) -> api_errors.StatusError | None:
        """Runs the mutating plugins, which may change ``new``, until the first refusal."""
        return self._run("mutating", attributes, new, old, lister)

    def validate(
        self, attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
    ) -> api_errors.StatusError | None:
        return self._run("validating", attributes, new, old, lister)

    def _run(
        self, phase: Phase, attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
    ) -> api_errors.StatusError | None:
        for plugin in self._plugins_for(phase, attributes):
            refusal = plugin(attributes, new, old, lister)
            if refusal is not None:
                return refusal
        return None

    def _plugins_for(self, phase: Phase, attributes: AdmissionAttributes) -> tuple[Plugin, ...]:
        key = (phase, attributes.operation, attributes.resource, attributes.subresource)
        found = self._cache.get(key)
        if found is None:
            _, operation, resource, subresource = key
            endpoint = f"{resource}/{subresource}" if subresource else str(resource)
            for_operation = (each for each in self._registrations[phase] if operation in each.operations)
            found = self._cache[key] = tuple(each.run for each in for_operation if each.endpoint in (_EVERY, endpoint))
        return found


PLUGIN_NAMES: Final = frozenset(each.plugin for each in (*MUTATING, *VALIDATING))


def builtin(disabled: Collection[str] = ()) -> AdmissionPlugins:
    """The built-in plugins without those that are disabled by name."""
    mutating, validating = (
        [each for each in registrations if each.plugin not in disabled] for registrations in (MUTATING, VALIDATING)
    )
    return AdmissionPlugins(mutating, validating)
