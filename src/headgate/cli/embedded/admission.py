"""Headgate's own admission inside the embedded server: the steps of ``admission/`` as rows of the server's plugin
table.

Nothing is installed and no network is involved: every step sees the cluster at the time of the write.
"""

from __future__ import annotations

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


def policy_of(plan: ClusterOptions) -> AdmissionPolicy:
    """Whose pods are gated here: those that go by queues. And who may stamp them: where no scheduler of ours is in the
    process, one that comes from outside comes with the one kubeconfig there is."""
    is_alone = "scheduler" in plan.components
    return AdmissionPolicy(
        schedulers=QUEUE_SCHEDULERS,
        trusted=plan.trusted_users | ({SYSTEM.name} if is_alone else {SYSTEM.name, ADMIN.name}),
        gates_all=plan.gates_all,
        gates=plan.features.queue_allocation_gate,
        suspends_jobs="jobs" in plan.components,
        features=plan.features,
        jobs=plan.jobs,
    )


def own_admission(policy: AdmissionPolicy, store: Store) -> AdmissionPlugins:
    """What the server is handed."""
    steps, book = enabled_steps(policy), StoreAdmissionIndex(store)
    return AdmissionPlugins(
        [_row(step, policy, book) for step in steps if step.mutates],
        [_row(step, policy, book) for step in steps if not step.mutates],
    )


def _row(step: AdmissionStep, policy: AdmissionPolicy, book: StoreAdmissionIndex) -> PluginRegistration:
    endpoint = stored_as(step.resource) + (f"/{step.subresource}" if step.subresource else "")
    return PluginRegistration(step.name, step.operations, endpoint, _plugin(step, policy, book))


def _plugin(step: AdmissionStep, policy: AdmissionPolicy, book: StoreAdmissionIndex) -> Plugin:
    def run(
        attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister
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
        )
        answer = step.ask(request, policy, book.view())
        if answer.warnings:
            attributes.warn(*answer.warnings)
        if answer.refusal:
            return attributes.forbidden(new, answer.refusal)
        return _patched(new, answer) if answer.patch else None

    return run


def _patched(new: Object, answer: AdmissionResponse) -> api_errors.StatusError | None:
    made = apply_json_patch(new, list(answer.patch), checked=False)
    if isinstance(made, PatchError):
        return api_errors.internal_error(made.why or made.message)
    new.update(made.value)
    return None
