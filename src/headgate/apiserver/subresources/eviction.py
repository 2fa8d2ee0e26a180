"""``pods/eviction``: a delete that checks the pod's disruption budget first."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.kinds.rows.row import CREATE, builtin_kind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import deleting, updating, writing
from headgate.kube import conditions, labels
from headgate.kube.schema import GroupVersionKind
from headgate.store import Item

Object = dict[str, Any]

_EVICTION: Final = builtin_kind("policy/v1", "Eviction", "evictions", "Namespaced", verbs=CREATE)
# Old clients still send the previous version.
_OLD_VERSIONS: Final = frozenset({GroupVersionKind("policy", "v1beta1", "Eviction")})
_BUDGET: Final = GroupVersionKind("policy", "v1", "PodDisruptionBudget")
_BUDGETS: Final = "poddisruptionbudgets.policy"
_MAX_DISRUPTED_PODS: Final = 2000
_WOULD_VIOLATE: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_PHASES_WITHOUT_BUDGET: Final = frozenset({"Succeeded", "Failed", "Pending"})
_DISRUPTION_TARGET: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def create(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    write_options = options.write_options(call.query, "CreateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    eviction = request_bodies.decode_object(call, _EVICTION, write_options.field_validation, aliases=_OLD_VERSIONS)
    if isinstance(eviction, api_errors.StatusError):
        return responses.refused(call, eviction)
    if admission_chain.has_webhooks(call, "CREATE"):
        eviction = updating.record_managed_fields(
            call, eviction, None, call.strategy.update, write_options.field_manager, _EVICTION
        )
    problem = yield from _evict(call, eviction, write_options.dry_run)
    if problem is not None:
        return responses.refused(call, problem)
    return responses.respond(call, 201, api_errors.success(code=201))


def _evict(
    call: RequestContext, eviction: Object, dry_run: bool
) -> Generator[Effect, Any, api_errors.StatusError | None]:
    name = call.info.name
    problem = writing.match_namespace(call.namespace, eviction["metadata"])
    if problem is not None:
        return problem
    admitted = yield from admission_chain.admit_create(call, eviction)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    eviction = admitted
    if eviction["metadata"].get("name", "") != name:
        return api_errors.bad_request("name in URL does not match name in Eviction object")
    delete_fields = {**(eviction.get("deleteOptions") or {})}
    if dry_run:
        delete_fields["dryRun"] = ["All"]
    reviewed = {**eviction, "deleteOptions": delete_fields} if "deleteOptions" in eviction else eviction
    problem = yield from admission_chain.validate_create(call, reviewed)
    if problem is not None:
        return problem
    delete_options = options.delete_options(delete_fields)
    if isinstance(delete_options, api_errors.StatusError):
        return delete_options
    item = call.api.store.read_applied("pods", call.namespace, name)
    if item is None:
        return api_errors.not_found(call.resource, name)
    pod = stored_objects.load(call.api, call.kind, item)
    refusal = None if _needs_no_budget(pod) else _use_budget(call, pod, delete_options.dry_run)
    if refusal is not None:
        return refusal
    return (yield from _delete(call, item, pod, delete_options))


def _needs_no_budget(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in _PHASES_WITHOUT_BUDGET or "deletionTimestamp" in pod["metadata"]


def _delete(
    call: RequestContext, item: Item, pod: Object, delete_options: options.DeleteOptions
) -> Generator[Effect, Any, api_errors.StatusError | None]:
    problem = deleting.check_preconditions(call, pod, delete_options)
    if problem is not None:
        return problem
    if not delete_options.dry_run:
        evicted = {**pod, "status": _with_condition(pod.get("status") or {}, _DISRUPTION_TARGET, call.now)}
        if evicted != pod:
            item = writing.stage(call, call.kind, stored_objects.wire_form(call.api, call.kind, evicted))
    # Admission has run for the eviction; it does not run for the delete.
    deleted = yield from deleting.delete_admitted(call, item, options.without_preconditions(delete_options))
    return deleted if isinstance(deleted, api_errors.StatusError) else None


def _use_budget(call: RequestContext, pod: Object, dry_run: bool) -> api_errors.StatusError | None:
    """Subtracts one disruption from the PodDisruptionBudget that selects the pod; the error if it allows none."""
    budgets = [budget for budget in _budgets(call) if _covers(budget, pod)]
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        return api_errors.unknown_error(text)
    if not budgets:
        return None
    budget = budgets[0]
    if not _is_ready(pod) and _allows_unhealthy_eviction(budget):
        return None
    refusal = _refusal(budget)
    if refusal is not None or dry_run:
        return refusal
    _stage_decrement(call, budget, pod["metadata"]["name"])
    return None


def _budgets(call: RequestContext) -> list[Object]:
    kind = call.api.kinds.by_gvk(_BUDGET)
    if kind is None:
        return []
    return [stored_objects.load(call.api, kind, item) for item in call.api.store.list_applied(_BUDGETS, call.namespace)]


def _covers(budget: Object, pod: Object) -> bool:
    selector = labels.from_label_selector((budget.get("spec") or {}).get("selector"))
    return selector.matches(pod["metadata"].get("labels") or {})


def _is_ready(pod: Object) -> bool:
    return conditions.is_true((pod.get("status") or {}).get("conditions"), conditions.POD_READY)


def _with_condition(status: Object, condition: Object, now: str) -> Object:
    return {**status, "conditions": conditions.with_condition(status.get("conditions"), condition, now)}


def _allows_unhealthy_eviction(budget: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    counts = budget.get("status") or {}
    desired, current = counts.get("desiredHealthy", 0), counts.get("currentHealthy", 0)
    return bool(desired > 0 and current >= desired)


def _refusal(budget: Object) -> api_errors.StatusError | None:
    name, counts = budget["metadata"]["name"], budget.get("status") or {}
    resource = api_errors.GroupResource("policy", "poddisruptionbudget")
    if counts.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        return _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = counts.get("disruptionsAllowed", 0)
    if allowed < 0:
        return api_errors.forbidden(resource, name, "pdb disruptions allowed is negative")
    if len(counts.get("disruptedPods") or {}) > _MAX_DISRUPTED_PODS:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return api_errors.forbidden(resource, name, text)
    return None if allowed else _too_many(_budget_message(name, counts), 0)


def _budget_message(name: str, counts: Object) -> str:
    condition = conditions.find(counts.get("conditions"), "DisruptionAllowed") or {}
    blocked = condition.get("status") == "False" and bool(condition.get("message"))
    prefix = f"The disruption budget {name} does not allow evicting pods currently"
    if blocked and condition.get("reason") == "SyncFailed":
        return f"{prefix} because it failed sync: {condition['message']}"
    desired, current = counts.get("desiredHealthy", 0), counts.get("currentHealthy", 0)
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{prefix} ({condition.get('reason', '')}): {condition['message']}" if blocked else prefix


def _too_many(text: str, retry_after_s: int) -> api_errors.StatusError:
    details = api_errors.StatusDetails(
        causes=(api_errors.StatusCause("DisruptionBudget", text),), retry_after_s=retry_after_s
    )
    return api_errors.StatusError(429, "TooManyRequests", _WOULD_VIOLATE, details)


def _stage_decrement(call: RequestContext, budget: Object, pod_name: str) -> None:
    """Stages the budget with one allowed disruption less."""
    kind = call.api.kinds.by_gvk(_BUDGET)
    if kind is None:
        return
    counts = dict(budget.get("status") or {})
    counts["disruptionsAllowed"] = counts.get("disruptionsAllowed", 0) - 1
    counts["disruptedPods"] = {**(counts.get("disruptedPods") or {}), pod_name: call.now}
    if counts["disruptionsAllowed"] == 0:
        blocked = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "observedGeneration": counts.get("observedGeneration", 0),
        }
        counts = _with_condition(counts, blocked, call.now)
    writing.stage(call, kind, stored_objects.wire_form(call.api, kind, {**budget, "status": counts}))
