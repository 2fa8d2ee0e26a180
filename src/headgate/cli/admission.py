"""Headgate's own admission inside the embedded server: the steps of ``admission/`` as rows of the server's plugins.

There is nothing to install and no network between: every step sees the cluster as the write finds it.
"""

from __future__ import annotations

from headgate.admission.policy import Object, Policy
from headgate.admission.review import Answer, Request
from headgate.admission.steps import Step, wanted
from headgate.apiserver.builtin.attributes import Attributes, Plugin, View
from headgate.apiserver.builtin.plugins import Row, Table
from headgate.cli.credentials import ADMIN, SYSTEM
from headgate.cli.plan import Plan
from headgate.cli.store_book import StoreBook, stored_as
from headgate.kube import status
from headgate.kube.patch.json_patch import apply_json_patch
from headgate.kube.patch.result import PatchProblem
from headgate.scheduling.configuration.queue_profile import QUEUE_SCHEDULERS
from headgate.store import Store


def policy_of(plan: Plan) -> Policy:
    """Whose pods are gated here: those that go by queues. And who may stamp them: where no scheduler of ours is in the
    process, one that comes from outside comes with the one kubeconfig there is."""
    is_alone = "scheduler" in plan.components
    return Policy(
        schedulers=QUEUE_SCHEDULERS,
        trusted=plan.trusted_users | ({SYSTEM.name} if is_alone else {SYSTEM.name, ADMIN.name}),
        gates_all=plan.gates_all,
        gates=plan.features.queue_allocation_gate,
        suspends_jobs="jobs" in plan.components,
        features=plan.features,
        jobs=plan.jobs,
    )


def own_admission(policy: Policy, store: Store) -> Table:
    """What the server is handed."""
    steps, book = wanted(policy), StoreBook(store)
    return Table(
        [_row(step, policy, book) for step in steps if step.mutates],
        [_row(step, policy, book) for step in steps if not step.mutates],
    )


def _row(step: Step, policy: Policy, book: StoreBook) -> Row:
    endpoint = stored_as(step.resource) + (f"/{step.subresource}" if step.subresource else "")
    return Row(step.name, step.operations, endpoint, _plugin(step, policy, book))


def _plugin(step: Step, policy: Policy, book: StoreBook) -> Plugin:
    def run(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
        request = Request(
            operation=attributes.operation,
            resource=attributes.resource.resource,
            namespace=attributes.namespace,
            name=attributes.name,
            subresource=attributes.subresource,
            user=attributes.user,
            obj=new,
            old=old or {},
        )
        answer = step.ask(request, policy, book.now())
        if answer.warnings:
            attributes.warn(*answer.warnings)
        if answer.refusal:
            return attributes.forbidden(new, answer.refusal)
        return _patched(new, answer) if answer.patch else None

    return run


def _patched(new: Object, answer: Answer) -> status.ApiError | None:
    made = apply_json_patch(new, list(answer.patch), checked=False)
    if isinstance(made, PatchProblem):
        return status.internal_error(made.why or made.message)
    new.update(made.value)
    return None
