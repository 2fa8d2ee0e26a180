"""Headgate's own admission inside the embedded server: the steps of ``admission/`` as rows of the server's plugin
table.

Nothing is installed and no network is involved: every step sees the cluster at the time of the write.
"""

from __future__ import annotations

import time

from headgate.admission.admission_review import AdmissionRequest, AdmissionResponse
from headgate.admission.policy import AdmissionPolicy, Object
from headgate.admission.steps import AdmissionStep, enabled_steps
from headgate.apimachinery import api_errors
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchError
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, ObjectLister, Plugin
from headgate.apiserver.admission_plugins.plugin_table import AdmissionPlugins, PluginRegistration
from headgate.cli.embedded.admission_view import StoreAdmissionIndex, stored_as
from headgate.cli.embedded.cluster_options import ClusterOptions
from headgate.cli.embedded.credentials import ADMIN, SYSTEM
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS
from headgate.store import Store


def policy_of(options: ClusterOptions) -> AdmissionPolicy:
    """Pods of the queue schedulers are gated. If no scheduler runs in this process, an external one uses the admin's
    kubeconfig, so the admin may stamp pods, too."""
    has_scheduler = "scheduler" in options.components
    return AdmissionPolicy(
        schedulers=QUEUE_SCHEDULERS,
        trusted=options.trusted_users | ({SYSTEM.name} if has_scheduler else {SYSTEM.name, ADMIN.name}),
        gates_all=options.gates_all,
        gates=options.features.queue_allocation_gate,
        suspends_jobs="jobs" in options.components,
        features=options.features,
        jobs=options.jobs,
    )


def own_admission(policy: AdmissionPolicy, store: Store) -> AdmissionPlugins:
    """The admission plugins for the server."""
    steps, index = enabled_steps(policy), StoreAdmissionIndex(store)
    return AdmissionPlugins(
        [_row(step, policy, index) for step in steps if step.mutates],
        [_row(step, policy, index) for step in steps if not step.mutates],
    )


def _row(step: AdmissionStep, policy: AdmissionPolicy, index: StoreAdmissionIndex) -> PluginRegistration:
    endpoint = stored_as(step.resource) + (f"/{step.subresource}" if step.subresource else "")
    return PluginRegistration(step.name, step.operations, endpoint, _plugin(step, policy, index))


def _plugin(step: AdmissionStep, policy: AdmissionPolicy, index: StoreAdmissionIndex) -> Plugin:
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
        )
        view = index.view()
        response = step.handle(request, policy, view)
        if response.assumes is not None:
            view.resizes.assume(response.assumes, request.now_s)
        if response.warnings:
            attributes.warn(*response.warnings)
        if response.refusal:
            return attributes.forbidden(new, response.refusal)
        return _apply_patch(new, response) if response.patch else None

    return run


def _apply_patch(new: Object, response: AdmissionResponse) -> api_errors.StatusError | None:
    patched = apply_json_patch(new, list(response.patch), checked=False)
    if isinstance(patched, PatchError):
        return api_errors.internal_error(patched.detail or patched.message)
    new.update(patched.value)
    return None
