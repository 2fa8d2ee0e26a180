"""Headgate's admission handlers as admission plugins of the embedded API server.

No webhook is called: the API server runs each handler (a step of ``admission/steps.py``) in the same process, on the
state of the store at the time of the write.
"""

from __future__ import annotations

import time

from headgate.admission.admission_review import AdmissionRequest, AdmissionResponse
from headgate.admission.settings import AdmissionSettings, Object
from headgate.admission.steps import AdmissionStep, enabled_steps
from headgate.apimachinery import api_errors
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchError
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, ObjectLister, Plugin
from headgate.apiserver.admission_plugins.plugin_table import AdmissionPlugins, PluginRegistration
from headgate.cli.embedded.admission_view import StoreAdmissionIndex, stored_as
from headgate.cli.embedded.cluster_options import ClusterOptions
from headgate.cli.embedded.credentials import ADMIN, SYSTEM
from headgate.gate_policies.names import WORKLOAD_CONTROLLERS
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS
from headgate.store import Store


def settings_of(options: ClusterOptions) -> AdmissionSettings:
    """The settings of the handlers. If no scheduler runs in this process, an external one uses the admin's kubeconfig,
    so the admin may write the stamp, too."""
    has_scheduler = "scheduler" in options.components
    return AdmissionSettings(
        schedulers=QUEUE_SCHEDULERS,
        trusted_users=options.trusted_users | ({SYSTEM.name} if has_scheduler else {SYSTEM.name, ADMIN.name}),
        gates_all_pods=options.gates_all_pods,
        queue_gate_enabled=options.features.queue_allocation_gate,
        suspends_jobs="jobs" in options.components,
        features=options.features,
        jobs=options.jobs,
        workload_controllers=WORKLOAD_CONTROLLERS | {SYSTEM.name},
    )


def own_admission(settings: AdmissionSettings, store: Store) -> AdmissionPlugins:
    """The admission plugins for the server."""
    steps, index = enabled_steps(settings), StoreAdmissionIndex(store, settings)
    return AdmissionPlugins(
        [_row(step, settings, index) for step in steps if step.mutates],
        [_row(step, settings, index) for step in steps if not step.mutates],
    )


def _row(step: AdmissionStep, settings: AdmissionSettings, index: StoreAdmissionIndex) -> PluginRegistration:
    endpoint = stored_as(step.resource) + (f"/{step.subresource}" if step.subresource else "")
    return PluginRegistration(step.name, step.operations, endpoint, _plugin(step, settings, index))


def _plugin(step: AdmissionStep, settings: AdmissionSettings, index: StoreAdmissionIndex) -> Plugin:
    def run(
        attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
    ) -> api_errors.StatusError | None:
        request = AdmissionRequest(
            operation=attributes.operation,
            resource=attributes.resource.resource,
            namespace=attributes.namespace,
            name=attributes.name,
            subresource=attributes.subresource,
            user=attributes.user,
            obj=new,
            old=old or {},
            dry_run=attributes.dry_run,
            now_s=time.monotonic(),
            groups=attributes.groups,
        )
        view = index.view()
        response = step.handle(request, settings, view)
        if response.assumes is not None:
            view.assume(response.assumes, request.now_s)
        if response.warnings:
            attributes.warn(*response.warnings)
        if response.refusal:
            return attributes.forbidden(new, response.refusal)
        return _apply_patch(new, response) if response.patch else None

    return run


def _apply_patch(new: Object, response: AdmissionResponse) -> api_errors.StatusError | None:
    patched = apply_json_patch(new, list(response.patch), strict_decoding=False)
    if isinstance(patched, PatchError):
        return api_errors.internal_error(patched.detail or patched.message)
    new.update(patched.value)
    return None
