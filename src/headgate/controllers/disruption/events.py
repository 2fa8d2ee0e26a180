"""The Events of budgets and of their pods, with the texts of Kubernetes."""

from __future__ import annotations

from typing import Any, Final, Literal

from headgate.controllers.disruption.budget_pods import BudgetedPod, Key
from headgate.controllers.framework.effects import EmitEvent
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.field_errors import quote
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

BUDGET: Final = GroupVersionKind("policy", "v1", "PodDisruptionBudget")
COMPONENT: Final = "controllermanager"


def no_pods(budget: Object) -> EmitEvent:
    return _event(object_reference(budget, BUDGET), "Normal", "NoPods", "No matching pods found")


def uncountable(budget: Object, reason: str) -> EmitEvent:
    text = f"Failed to calculate the number of expected pods: {reason}"
    return _event(object_reference(budget, BUDGET), "Warning", "CalculateExpectedPodCountFailed", text)


def unmanaged(budget: Object) -> EmitEvent:
    selector = _go_format(budget["spec"].get("selector"))
    text = (
        f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found "
        "to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
        'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
        "integer value."
    )
    return _event(object_reference(budget, BUDGET), "Warning", "UnmanagedPods", text)


def not_deleted(budget: Object, pod: BudgetedPod) -> EmitEvent:
    namespace = budget["metadata"]["namespace"]  # upstream prints the namespace twice
    text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
    return _event(_pod(pod), "Warning", "NotDeleted", text)


def several_budgets(pod: BudgetedPod, budgets: tuple[Key, ...]) -> EmitEvent:
    pod_name = f"Pod {quote(pod.namespace)}/{quote(pod.name)}"
    text = f"{pod_name} matches multiple PodDisruptionBudgets.  Chose {quote(budgets[0][1])} arbitrarily."
    return _event(_pod(pod), "Warning", "MultiplePodDisruptionBudgets", text)


def _event(reference: Object, kind: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
    return EmitEvent(reference, kind, reason, message, COMPONENT)


def _pod(pod: BudgetedPod) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _go_format(selector: Object | None) -> str:
    """The selector as Go prints it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    inside = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}},"
    return f"&LabelSelector{{{inside}}}"
