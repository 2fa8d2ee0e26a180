"""What is wrong with a cluster's gates, queues, webhooks, Leases, clocks and deletions, as findings with a fix. Pure.

Each function gets objects that ``cluster_checks.py`` has read. A finding is an error if something can never go on as it
is, a warning if it may be wrong, and an info otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.capacity.engine import WaitReason
from headgate.capacity.names import GATE, OPT_IN, ROOT
from headgate.client.gated_pods import GateCount
from headgate.jobs.names import OWN_GATES
from headgate.kube.timestamps import human_duration, parse_micro_time, parse_time
from headgate.quota.explain.queue_list import cluster_queue_rows, pending_workloads, stray_local_queues
from headgate.quota.kinds.names import LOCAL_QUEUES
from headgate.runtime.inspection.gate_owners import GateOwners
from headgate.runtime.inspection.queues import QueueInspection
from headgate.runtime.inspection.quota import QuotaInspection

Wire = Mapping[str, Any]
Severity = Literal["error", "warning", "info"]

_OLD_GATE_S: Final = 3600.0
"""A gate of another controller that has held a pod for longer is reported."""
_STUCK_DELETION_S: Final = 120.0
_SKEW_S: Final = 2.0
"""Date headers have whole seconds."""
_BAD_SKEW_S: Final = 10.0
"""From here on the quota engine ignores reservation times of pods (``quota/api/quota_reservation.py``)."""
_MAX_TIMEOUT_S: Final = 10
_DEFAULT_LEASE_S: Final = 15
_MICROS: Final = 1_000_000
_HEALTHY: Final = ("OK", "not reported")


class Diagnosis(msgspec.Struct, frozen=True):
    """``check``: what was looked at. ``subject``: TYPE/NAME, with the namespace in front. ``fix``: a command, or what
    has to be done."""

    severity: Severity
    check: str
    subject: str
    text: str
    fix: str = ""


class WebhookBackend(msgspec.Struct, frozen=True):
    """``problem``: why API servers cannot call it; empty if they can. ``is_known``: whether that could be found out."""

    problem: str = ""
    is_known: bool = True


def check_clock(skew_s: float) -> Iterator[Diagnosis]:
    """``skew_s``: by how much the clock of the API server is ahead of the local one, at least."""
    if abs(skew_s) <= _SKEW_S:
        return
    ahead = "ahead of" if skew_s > 0 else "behind"
    text = f"the clock of the API server is {human_duration(abs(skew_s))} {ahead} the clock of this machine"
    yield Diagnosis(
        "error" if abs(skew_s) > _BAD_SKEW_S else "warning",
        "clocks",
        "apiserver",
        f"{text}: ages and times here are wrong by that, and so are times that controllers on this machine write",
        "timedatectl status",
    )


def check_leases(leases: Iterable[Wire], now_s: float) -> Iterator[Diagnosis]:
    """``leases``: of schedulers and controllers that work on queues. ``now_s``: by the clock of the API server."""
    for lease in leases:
        metadata, spec = lease["metadata"], lease.get("spec") or {}
        subject = f"{metadata['namespace']}/lease/{metadata['name']}"
        holder = spec.get("holderIdentity")
        renewed_us = parse_micro_time(str(spec.get("renewTime") or ""))
        if not holder:
            yield Diagnosis(
                "warning",
                "leases",
                subject,
                "no replica holds it: its component does not run, or stopped cleanly",
                f"kubectl -n {metadata['namespace']} get pods",
            )
        elif not isinstance(renewed_us, str):
            age_s = now_s - renewed_us / _MICROS
            valid_s = float(spec.get("leaseDurationSeconds") or _DEFAULT_LEASE_S)
            if age_s > 2 * valid_s:
                text = f"{holder} has not renewed it for {human_duration(age_s)} (it is valid for {valid_s:g} s)"
                yield Diagnosis(
                    "error",
                    "leases",
                    subject,
                    f"{text}, so its component does not work",
                    f"kubectl get pods -A | grep {holder.partition('_')[0]}",
                )


def webhook_services(configurations: Iterable[Wire]) -> set[tuple[str, str]]:
    """The Services that API servers call, by namespace and name."""
    return {
        (service.get("namespace", ""), service.get("name", ""))
        for each in configurations
        for webhook in each.get("webhooks") or ()
        if (service := (webhook.get("clientConfig") or {}).get("service"))
    }


def check_webhooks(
    kind: str, configurations: Iterable[Wire], backends: Mapping[tuple[str, str], WebhookBackend]
) -> Iterator[Diagnosis]:
    """``kind``: as kubectl takes it. ``backends``: of :func:`webhook_services`."""
    for configuration in configurations:
        name = configuration["metadata"]["name"]
        subject, remove = f"{kind}/{name}", f"kubectl delete {kind} {name}"
        seen: Counter[tuple[Severity, str, str]] = Counter()
        for webhook in configuration.get("webhooks") or ():
            for found in _webhook_problems(kind, name, webhook, backends, remove):
                seen[found] += 1
        for (severity, text, fix), count in seen.items():
            yield Diagnosis(severity, "webhooks", subject, text + (f" ({count} webhooks)" if count > 1 else ""), fix)


def _webhook_problems(
    kind: str, name: str, webhook: Wire, backends: Mapping[tuple[str, str], WebhookBackend], remove: str
) -> Iterator[tuple[Severity, str, str]]:
    client = webhook.get("clientConfig") or {}
    service = client.get("service")
    fails = webhook.get("failurePolicy", "Fail") == "Fail"
    backend = backends.get((service.get("namespace", ""), service.get("name", ""))) if service else None
    if service and backend is not None and backend.problem:
        effect = "so every request that it matches is refused" if fails else "so it is skipped: gates are not added"
        effect = effect if fails or name == "headgate" else "so it is skipped"
        look = (
            f"kubectl -n {service['namespace']} get pods,endpointslices -l kubernetes.io/service-name={service['name']}"
        )
        fix = f"{look}; if its program is gone: {remove}"
        yield "error" if fails else "warning", f"{backend.problem}, {effect} (failurePolicy {_policy(fails)})", fix
    if not client.get("caBundle") and service:
        yield (
            "warning",
            "it has no caBundle: API servers cannot verify its certificate",
            f"kubectl get {kind} {name} -o yaml",
        )
    if fails and kind.startswith("mutating") and not _spares_system(webhook) and service and _matches_pods(webhook):
        yield (
            "warning",
            "it has failurePolicy Fail for pods of all namespaces: if its program stops, no pod is created, not even "
            "those of kube-system",
            f"kubectl edit {kind} {name}: set failurePolicy: Ignore, or a namespaceSelector without kube-system",
        )
    if int(webhook.get("timeoutSeconds") or 10) > _MAX_TIMEOUT_S:
        yield "warning", f"a request may wait {webhook['timeoutSeconds']} s for it", f"kubectl edit {kind} {name}"


def _policy(fails: bool) -> str:
    return "Fail" if fails else "Ignore"


def _spares_system(webhook: Wire) -> bool:
    selector = webhook.get("namespaceSelector") or {}
    return bool(selector.get("matchLabels") or selector.get("matchExpressions") or webhook.get("matchConditions"))


def _matches_pods(webhook: Wire) -> bool:
    rules = webhook.get("rules") or ()
    return any(
        {"pods", "*", "*/*"} & set(rule.get("resources") or ()) and {"", "*"} & set(rule.get("apiGroups") or ())
        for rule in rules
    )


def check_gates(counts: Iterable[GateCount], owners: GateOwners | None, now_s: float) -> Iterator[Diagnosis]:
    """``owners``: None if they may not be read."""
    for each in counts:
        if each.gate in (GATE, *OWN_GATES):
            continue
        created = parse_time(each.oldest.created)
        age_s = 0.0 if isinstance(created, str) else now_s - created
        owner = None if owners is None else owners.by_gate.get(each.gate)
        holds = f"it holds {each.pods} pods, {each.oldest.key} for {human_duration(age_s)}"
        if owner is not None and owner.health not in _HEALTHY:
            text = f"{holds}; its GatePolicy {owner.policy} reports {owner.health}"
            yield Diagnosis("error", "gates", f"gate/{each.gate}", text, f"kubectl describe gatepolicy {owner.policy}")
        elif owner is None and age_s > _OLD_GATE_S:
            fix = f"start its controller; if it is gone for good: headgate gates lift {each.gate} -A --all"
            text = f"{holds}; no GatePolicy names its owner"
            yield Diagnosis("warning", "gates", f"gate/{each.gate}", text, fix)


def check_queues(found: QueueInspection) -> Iterator[Diagnosis]:
    for key, problem in sorted(found.problems.items()):
        kind, _, name = key.partition("/")
        where = f" -n {name.partition('/')[0]}" if "/" in name else ""
        yield Diagnosis("error", "queues", key, problem, f"kubectl edit {kind} {name.rpartition('/')[2]}{where}")
    if not found.knows_usage:
        return
    for name, count in found.pods_of_missing_queues.items():
        fix = f"create it, or name another queue: kubectl get pods -A | grep Pending; headgate explain queue {name}"
        yield Diagnosis("error", "queues", f"queue/{name}", f"it does not exist, and {count} pods name it", fix)
    for name in sorted(found.specs):
        refusal = found.queues.refusal(name)
        waiting = found.queues.usage(name).waiting
        if refusal is not None and waiting and refusal.why in (WaitReason.CLOSED, WaitReason.INVALID):
            text = f"{refusal.message}, and {waiting} pods wait in it"
            yield Diagnosis("error", "queues", f"queue/{name}", text, f"headgate explain queue {name}")
    yield from _lost_gates(found)


def _lost_gates(found: QueueInspection) -> Iterator[Diagnosis]:
    """Pods with the queue gate that did not opt in: no component removes their gates."""
    lost = [
        each.key
        for each in found.queues.contents(ROOT).held_back
        if (wait := found.queues.peek_wait_reason(each.uid)) is not None and wait.why is WaitReason.NOT_OPTED_IN
    ]
    if lost:
        namespace, _, name = lost[0].partition("/")
        yield Diagnosis(
            "error",
            "gates",
            f"gate/{GATE}",
            f'{len(lost)} pods have the gate without the annotation {OPT_IN}: "true", such as {lost[0]}: no component '
            f"removes it",
            f"headgate explain pod {name} -n {namespace}; headgate gates lift {GATE} -n {namespace} -l SELECTOR",
        )


def check_quota(found: QuotaInspection) -> Iterator[Diagnosis]:
    for (kind, name), problem in sorted(found.engine.cache.problems.items()):
        namespace, slash, short = name.partition("/")
        where = f" -n {namespace}" if slash else ""
        fix = f"kubectl edit {kind.lower()} {short or namespace}{where}"
        yield Diagnosis("error", "quota", f"{kind.lower()}/{name}", problem, fix)
    if not found.knows_positions:
        return
    for row in cluster_queue_rows(found.engine):
        if row.state in ("Active", "Invalid"):
            continue
        severity: Severity = "error" if row.pending else "warning"
        text = f"{row.message}; {row.pending} Workloads wait"
        yield Diagnosis(
            severity, "quota", f"clusterqueue/{row.name}", text, f"headgate explain clusterqueue {row.name}"
        )
    for local in stray_local_queues(found.engine):
        text = f"its ClusterQueue {local.cluster_queue} does not exist; {local.pending} Workloads wait"
        remove = f"kubectl -n {local.namespace} delete localqueue {local.name}"
        fix = f"create ClusterQueue {local.cluster_queue}, or: {remove}"
        yield Diagnosis("error", "quota", f"{local.namespace}/localqueue/{local.name}", text, fix)
    if found.has_listed(LOCAL_QUEUES):
        yield from _missing_local_queues(found)


def _missing_local_queues(found: QuotaInspection) -> Iterator[Diagnosis]:
    missing = Counter(
        each.queue_key
        for each in pending_workloads(found.engine)
        if each.queue and each.queue_key not in found.engine.cache.local_queues
    )
    for key, count in sorted(missing.items()):
        namespace, _, name = key.partition("/")
        fix = f"create it, or find its jobs: headgate workloads -n {namespace} --queue {name}"
        text = f"it does not exist, and {count} Workloads name it"
        yield Diagnosis("error", "quota", f"{namespace}/localqueue/{name}", text, fix)


class TerminatingObject(msgspec.Struct, frozen=True):
    """An object that is being deleted. ``type``: as kubectl takes it."""

    type: str
    namespace: str
    name: str
    since: str
    finalizers: tuple[str, ...]


def check_deletions(objects: Sequence[TerminatingObject], now_s: float) -> Iterator[Diagnosis]:
    """``now_s``: by the clock of the API server, which sets deletion times."""
    for each in objects:
        since = parse_time(each.since)
        age_s = 0.0 if isinstance(since, str) else now_s - since
        if age_s <= _STUCK_DELETION_S or not each.finalizers:
            continue
        where = f" -n {each.namespace}" if each.namespace else ""
        subject = "/".join(filter(None, (each.namespace, each.type, each.name)))
        text = f"its deletion has waited for {human_duration(age_s)} for finalizers: {', '.join(each.finalizers)}"
        own = any(name.startswith(("kueue.x-k8s.io/", "headgate.dev/")) for name in each.finalizers)
        remove = (
            f"""kubectl patch {each.type} {each.name}{where} --type merge -p '{{"metadata":{{"finalizers":null}}}}'"""
        )
        run = "the components quota and jobs remove it while they run; " if own else ""
        yield Diagnosis("warning", "deletions", subject, text, f"{run}if its controller is gone for good: {remove}")
