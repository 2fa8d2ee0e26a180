"""When waiting pods and Workloads will probably start: reads the cluster, and lets ``estimates/`` replay it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from headgate.capacity.explanation import PodExplanation
from headgate.capacity.names import GATE
from headgate.cli.options.cluster_access import perform
from headgate.cli.wiring.estimates import EstimateEngines, make_quota_controller
from headgate.client.pager import ListRefused
from headgate.dashboard.io.expected_starts import PrepareStarts
from headgate.estimates.estimator import SHARE, EstimateSettings, StartEstimate, no_basis, replays_for
from headgate.estimates.pod_replay import PodReplayState
from headgate.estimates.present_state import Objects, pod_state, workload_state
from headgate.estimates.starts import estimate_pods, estimate_workloads
from headgate.estimates.units import group_of
from headgate.estimates.workload_replay import SERVED, WorkloadState, workload_key
from headgate.http.transport import Transport
from headgate.jobs.names import OWN_GATES
from headgate.kube import conditions
from headgate.kube.api_resources import NODES, PODS
from headgate.kube.lenient_reader import find_object, find_text
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.timestamps import human_duration
from headgate.quota.explain.description import WorkloadDescription
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import ADMISSION_GATED_BY, ADMITTED
from headgate.runtime.inspection.listed_objects import SCHEDULED, ListedObjects, list_objects
from headgate.runtime.inspection.object_reads import get_object

Wire = dict[str, Any]

MAX_TARGETS: Final = 500
WORKLOAD_RESOURCES: Final = (WORKLOADS, *(each for each, _ in SERVED if each != WORKLOADS))


async def prepare_expected_starts(
    transport: Transport,
    pod: PodExplanation | None,
    workloads: Iterable[WorkloadDescription],
    served: Collection[str],
    gated: Collection[str],
    now_s: float,
) -> Callable[[], dict[str, StartEstimate]]:
    """Reads what the estimates of a unit need. The returned function computes them, which may take seconds: by
    namespace/name of its pending Workloads; else, with an empty name, that of the pod itself."""
    keys = [f"{each.namespace}/{each.name}" for each in workloads if each.state == "pending"]
    if keys:
        return await _prepare_workload_starts(transport, keys, now_s)
    if pod is None or pod.state != "waiting":
        return dict
    found = await perform(transport, get_object(PODS, "pod", pod.namespace, pod.name))
    # The Workload of a pod behind Kueue's gate decides; it is absent, or cannot be read, and that is shown already.
    if isinstance(found, ListRefused) or set(gate_names(found)) & set(OWN_GATES):
        return dict
    return await _prepare_pod_start(transport, pod, found, (*served, *gated), now_s)


def prepare_starts_of(served: Collection[str], gated: Collection[str]) -> PrepareStarts:
    """For the page."""

    def prepare(
        transport: Transport, pod: PodExplanation | None, workloads: tuple[WorkloadDescription, ...], now_s: float
    ) -> Awaitable[Callable[[], dict[str, StartEstimate]]]:
        return prepare_expected_starts(transport, pod, workloads, served, gated, now_s)

    return prepare


async def _prepare_pod_start(
    transport: Transport, explanation: PodExplanation, pod: Wire, schedulers: Collection[str], now_s: float
) -> Callable[[], dict[str, StartEstimate]]:
    """For a waiting pod, and for its whole gang if it has one."""
    reason = unpredictable_hold(explanation)
    foreign = [each for each in gate_names(pod) if each != GATE]
    if foreign and not reason:
        reason = f"it is not known when gates of other controllers are removed: {', '.join(foreign)}"
    if not reason:
        listed = await perform(transport, list_objects(SCHEDULED))
        reason = missing_reason(listed)
    if reason:
        return lambda: {"": no_basis(reason)}

    def compute() -> dict[str, StartEstimate]:
        targets = {"": targets_of(pod, listed.objects)}
        return pod_starts(EstimateEngines(schedulers), pod_state(listed.objects, now_s), targets)

    return compute


def unpredictable_hold(explanation: PodExplanation) -> str:
    """Why no replay can say when the pod starts: plugins of other packages take no part in it. Empty if it can."""
    plugins = [hold.name for hold in explanation.holds if hold.kind == "plugin"]
    return f"it is not known when plugins let the pod pass: {', '.join(plugins)}" if plugins else ""


def targets_of(pod: Wire, objects: Objects) -> frozenset[str]:
    """The uids of the pod and of the other pods of its gang that have no node."""
    group, namespace = group_of(pod), find_text(pod, "metadata", "namespace")
    if not group:
        return frozenset((pod["metadata"]["uid"],))
    return frozenset(
        each["metadata"]["uid"]
        for each in objects.get(PODS, ())
        if group_of(each) == group
        and find_text(each, "metadata", "namespace") == namespace
        and not find_text(each, "spec", "nodeName")
    )


def pod_starts(
    engines: EstimateEngines, state: PodReplayState, targets: Mapping[str, frozenset[str]]
) -> dict[str, StartEstimate]:
    if not any(resource == NODES for resource, _ in state.objects):
        return {name: no_basis("the cluster has no nodes") for name in targets}
    known = {each["metadata"]["uid"] for each in state.pods}
    found = {
        name: no_basis("it has started or was deleted meanwhile") for name, uids in targets.items() if uids - known
    }
    asked = {name: uids for name, uids in targets.items() if name not in found and uids}
    if asked:
        settings = EstimateSettings(replays_for(len(state.pods)))
        found |= estimate_pods(engines.scheduler, state, asked, settings)
    return found


async def expected_workload_starts(
    transport: Transport, keys: Collection[str], now_s: float
) -> dict[str, StartEstimate]:
    """Estimates for pending Workloads, by namespace/name."""
    return (await _prepare_workload_starts(transport, keys, now_s))()


async def _prepare_workload_starts(
    transport: Transport, keys: Collection[str], now_s: float
) -> Callable[[], dict[str, StartEstimate]]:
    listed = await perform(transport, list_objects(WORKLOAD_RESOURCES))
    reason = missing_reason(listed)
    if not reason and len(keys) > MAX_TARGETS:
        reason = f"{len(keys)} Workloads wait; at most {MAX_TARGETS} are estimated at once: name a queue or a namespace"
    if reason:
        return lambda: dict.fromkeys(keys, no_basis(reason))
    return lambda: workload_starts(workload_state(listed.objects, now_s), keys, listed.objects)


def workload_starts(state: WorkloadState, keys: Collection[str], objects: Objects) -> dict[str, StartEstimate]:
    workloads = {workload_key(each): each for each in state.workloads}
    cluster_queues = cluster_queues_of(objects)
    specs = {each["metadata"]["name"]: find_object(each, "spec") for each in objects.get(CLUSTER_QUEUES, ())}
    found: dict[str, StartEstimate] = {}
    for key in keys:
        reason = _unpredictable(workloads.get(key), cluster_queues, specs)
        if reason:
            found[key] = no_basis(reason)
    asked = [key for key in keys if key not in found]
    if asked:
        settings = EstimateSettings(replays_for(len(state.workloads)))
        found |= estimate_workloads(make_quota_controller, state, asked, settings)
    return found


def cluster_queues_of(objects: Objects) -> dict[tuple[str, str], str]:
    """The ClusterQueue of each LocalQueue, by its namespace and name."""
    return {
        (str(each["metadata"].get("namespace")), each["metadata"]["name"]): find_text(each, "spec", "clusterQueue")
        for each in objects.get(LOCAL_QUEUES, ())
    }


def _unpredictable(
    workload: Wire | None, cluster_queues: Mapping[tuple[str, str], str], specs: Mapping[str, Wire]
) -> str:
    """Why no replay can say when the Workload is admitted; empty if it can."""
    if workload is None:
        return "it has finished or was deleted meanwhile"
    if conditions.is_true(find_object(workload, "status").get("conditions"), ADMITTED):
        return "it is admitted"
    if (workload.get("spec") or {}).get("active") is False:
        return "it is deactivated: it waits until a user activates it"
    gates = find_text(workload, "metadata", "annotations", ADMISSION_GATED_BY)
    if gates:
        return f"it is not known when its admission gates are removed: {gates}"
    namespace, queue = find_text(workload, "metadata", "namespace"), find_text(workload, "spec", "queueName")
    cluster_queue = cluster_queues.get((namespace, queue), "")
    spec = specs.get(cluster_queue)
    if spec is None:
        return f"LocalQueue {namespace}/{queue} or its ClusterQueue does not exist"
    if spec.get("admissionChecks") or spec.get("admissionChecksStrategy"):
        return f"ClusterQueue {cluster_queue} has admission checks, which other controllers decide"
    return ""


def missing_reason(listed: ListedObjects) -> str:
    return "; ".join(dict.fromkeys(each.line for each in listed.unavailable))


def estimate_lines(estimate: StartEstimate, now_s: float) -> Iterator[str]:
    """The lines that ``headgate explain`` prints."""
    yield "expected start"
    yield f"  {estimate_text(estimate, now_s)}"
    yield from (f"  {each}" for each in estimate.basis)


def estimate_text(estimate: StartEstimate, now_s: float) -> str:
    if estimate.state == "no basis":
        return f"no basis: {estimate.reason}"
    if estimate.state == "now":
        return "now" + (f" ({estimate.place})" if estimate.place else "")
    low = human_duration(max((estimate.earliest_s or now_s) - now_s, 0.0))
    if estimate.state == "later":
        return f"in {low} or later, after {estimate.earliest}: the upper end is too far away to be estimated"
    high = human_duration(max((estimate.latest_s or now_s) - now_s, 0.0))
    return f"in {low} to {high}, between {estimate.earliest} and {estimate.latest}, with a probability of {SHARE:.0%}"


def estimate_cell(estimate: StartEstimate | None, now_s: float) -> str:
    """In a table."""
    if estimate is None:
        return ""
    if estimate.state in ("no basis", "now"):
        return estimate.state
    low = human_duration(max((estimate.earliest_s or now_s) - now_s, 0.0))
    if estimate.state == "later":
        return f"{low} or later"
    return f"{low} to {human_duration(max((estimate.latest_s or now_s) - now_s, 0.0))}"
