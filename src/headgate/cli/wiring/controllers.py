"""The list of controllers, and how they run: in ``headgate up``, or on an existing cluster in ``headgate run``.

On an existing cluster the controllers use leader election with the Lease of kube-controller-manager, so they never run
at the same time as kube-controller-manager.
"""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from headgate import schemas
from headgate.cli.wiring.metrics import ProcessMetrics
from headgate.client.io.fenced_transport import FencedTransport
from headgate.client.io.leader_elector import ConnectTransport, LeaderElector, new_identity
from headgate.client.leader_election import LeaderElectionConfig
from headgate.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from headgate.controllers.cron_jobs.controller import CronJobController
from headgate.controllers.daemon_sets.controller import DaemonSetController
from headgate.controllers.deployments.controller import DeploymentController
from headgate.controllers.deployments.template_hash import TemplateHash
from headgate.controllers.disruption.controller import DisruptionController
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.jobs.controller import JobController
from headgate.controllers.namespaces import NamespaceController
from headgate.controllers.node_lifecycle.config import NodeLifecycleConfig
from headgate.controllers.node_lifecycle.controller import NodeLifecycleController
from headgate.controllers.node_lifecycle.taint_eviction import TaintEvictionController
from headgate.controllers.pod_gc import PodGCController
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.controllers.root_ca_publisher import RootCACertPublisher
from headgate.controllers.service_accounts import ServiceAccountsController
from headgate.controllers.stateful_sets.controller import StatefulSetController
from headgate.controllers.ttl_after_finished import TTLAfterFinishedController
from headgate.controllers.unsupported_kinds import UnsupportedKindsController
from headgate.controllers.volumes.attributes_class_protection import VolumeAttributesClassProtection
from headgate.controllers.volumes.controller import PersistentVolumeController
from headgate.controllers.volumes.ephemeral_volumes import EphemeralVolumeController
from headgate.controllers.volumes.hollow_provisioner import HollowProvisioner
from headgate.controllers.volumes.protection import StorageProtectionController
from headgate.gate_policies.controller import GatePolicyController
from headgate.http.transport import Transport
from headgate.jobs.failure_recovery import FailureRecovery
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.jobs.gated_jobs import GatedJobs
from headgate.jobs.gated_jobs_controller import GatedJobsController
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.jobs.settings import JobSettings
from headgate.jobs.terminating_pods import TerminatingPodsController
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.schema import Schemas
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.runtime.controller_manager import run_controllers
from headgate.runtime.decision_log import log_decision
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.time_zones import find_zone

USER_AGENT: Final = "kube-controller-manager"
"""It becomes the field manager of the controllers' writes, as in other clusters."""
DEFAULT: Final = NodeLifecycleConfig()
LEASE: Final = ("kube-system", "kube-controller-manager")
QUOTA_LEASE: Final = ("kube-system", "headgate-quota")
JOBS_LEASE: Final = ("kube-system", "headgate-jobs")
GATE_POLICIES_LEASE: Final = ("kube-system", "headgate-gate-policies")
_log: Final = logging.getLogger(__name__)
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # the alphabet of generated names in Kubernetes


def make_controllers(authority: str, features: FeatureGates, node_lifecycle: NodeLifecycleConfig) -> list[Controller]:
    """New controllers. ``authority``: the certificate for the ConfigMap kube-root-ca.crt."""
    return [
        NamespaceController(),
        GarbageCollector(),
        PodGCController(),
        ServiceAccountsController(),
        RootCACertPublisher(authority),
        ClusterRoleAggregationController(),
        ReplicaSetController(random_suffix),
        DeploymentController(template_hash()),
        JobController(random_suffix, features),
        TTLAfterFinishedController(),
        CronJobController(find_zone),
        StatefulSetController(),
        NodeLifecycleController(node_lifecycle),
        TaintEvictionController(),
        PersistentVolumeController(),
        HollowProvisioner(),
        StorageProtectionController(),
        VolumeAttributesClassProtection(),
        EphemeralVolumeController(),
        DisruptionController(),
        DaemonSetController(random_suffix, template_hash()),
        UnsupportedKindsController(),
    ]


@functools.cache
def template_hash() -> TemplateHash:
    return TemplateHash(Schemas.load(schemas.read()))


def random_suffix() -> str:
    """Five characters for a generated name."""
    return "".join(random.choices(_LETTERS, k=5))


async def run_builtin_controllers(
    authority: str,
    transport: Transport,
    features: FeatureGates,
    metrics: ProcessMetrics,
    node_lifecycle: NodeLifecycleConfig = DEFAULT,
) -> None:
    """Runs controllers until it is cancelled."""
    make = functools.partial(make_controllers, authority, features, node_lifecycle)
    await run_controllers(make, transport, failed=metrics.failures_of("controllers"))


def _warn(problem: str) -> None:
    _log.warning("quota: %s", problem)


def _warn_of_jobs(problem: str) -> None:
    _log.warning("jobs: %s", problem)


def quota_settings(features: FeatureGates, jobs: JobSettings) -> QuotaSettings:
    return QuotaSettings(
        honours_gates=features.admission_gated_by,
        pods_ready=jobs.pods_ready,
        starts_after_terminating=features.start_after_terminating_pods,
        max_wait_s=jobs.max_wait_s,
        honours_activation=features.activation_labels,
    )


async def run_quota(transport: Transport, features: FeatureGates, jobs: JobSettings, metrics: ProcessMetrics) -> None:
    """Runs the quota controller until it is cancelled."""
    settings = quota_settings(features, jobs)
    try:
        failed = metrics.failures_of("quota")
        make = functools.partial(QuotaController, settings, metrics.quota, _warn, log_decision)
        await run_controllers(lambda: [make()], transport, failed=failed)
    finally:
        metrics.quota.detach()


def make_job_controllers(features: FeatureGates, settings: JobSettings, metrics: JobMetrics) -> list[Controller]:
    """New controllers of jobs and pods in Kueue's queues. Pods that wait in a queue are handled also if the integration
    ``pod`` is switched off: only admission adds gates, and only this controller removes them and their finalizers."""
    gated, force_after_s = GatedJobs(), settings.force_delete_after_s
    found: list[Controller] = [
        ManagedJobController(features, settings, metrics, log_decision, gated),
        ManagedPodController(features, settings, metrics, log_decision, gated),
    ]
    found.append(GatedJobsController(gated, is_on=features.scheduling_gated_by, warn=_warn_of_jobs))
    found.append(TerminatingPodsController(metrics, settings.report_terminating_after_s))
    if features.failure_recovery_policy or force_after_s is not None:
        handles_unreachable = features.failure_recovery_policy
        found.append(FailureRecovery(handles_unreachable=handles_unreachable, ready_after_s=force_after_s))
    return found


async def run_jobs(
    transport: Transport, features: FeatureGates, settings: JobSettings, metrics: ProcessMetrics
) -> None:
    """Runs the controllers of jobs and pods in Kueue's queues until it is cancelled."""

    def make() -> list[Controller]:
        metrics.jobs.reset()
        return make_job_controllers(features, settings, metrics.jobs)

    try:
        await run_controllers(make, transport, failed=metrics.failures_of("jobs"))
    finally:
        metrics.jobs.reset()


async def run_gate_policies(transport: Transport, metrics: ProcessMetrics) -> None:
    """Runs the controller of GatePolicies until it is cancelled."""
    try:
        failed = metrics.failures_of("gate-policies")
        make = functools.partial(GatePolicyController, metrics.gate_policies, log_decision)
        await run_controllers(lambda: [make()], transport, failed=failed)
    finally:
        metrics.gate_policies.detach()


async def run_elected_controllers(
    authority: str,
    transport: Transport,
    features: FeatureGates,
    metrics: ProcessMetrics,
    print_line: Callable[[str], None],
    connect: ConnectTransport,
) -> None:
    """Runs the controllers while elected. ``connect``: see ``client/io/leader_elector.py``."""
    await run_elected(
        LEASE,
        transport,
        lambda fenced: run_builtin_controllers(authority, fenced, features, metrics),
        print_line,
        connect,
        metrics.health_registry,
    )


async def run_elected_quota(
    transport: Transport,
    features: FeatureGates,
    jobs: JobSettings,
    metrics: ProcessMetrics,
    print_line: Callable[[str], None],
    connect: ConnectTransport,
) -> None:
    await run_elected(
        QUOTA_LEASE,
        transport,
        lambda fenced: run_quota(fenced, features, jobs, metrics),
        print_line,
        connect,
        metrics.health_registry,
    )


async def run_elected_jobs(
    transport: Transport,
    features: FeatureGates,
    settings: JobSettings,
    metrics: ProcessMetrics,
    print_line: Callable[[str], None],
    connect: ConnectTransport,
) -> None:
    await run_elected(
        JOBS_LEASE,
        transport,
        lambda fenced: run_jobs(fenced, features, settings, metrics),
        print_line,
        connect,
        metrics.health_registry,
    )


async def run_elected_gate_policies(
    transport: Transport, metrics: ProcessMetrics, print_line: Callable[[str], None], connect: ConnectTransport
) -> None:
    await run_elected(
        GATE_POLICIES_LEASE,
        transport,
        lambda fenced: run_gate_policies(fenced, metrics),
        print_line,
        connect,
        metrics.health_registry,
    )


async def run_elected(
    lease: tuple[str, str],
    transport: Transport,
    work: Callable[[Transport], Awaitable[None]],
    print_line: Callable[[str], None],
    connect: ConnectTransport,
    health: HealthRegistry,
) -> None:
    """Runs ``work`` while this process is the leader. Its writes are fenced: none is sent after the time when another
    process may have become the leader."""
    elector = LeaderElector(connect, *lease, new_identity(), LeaderElectionConfig())

    async def lead() -> None:
        print_line(f"elected: holds the Lease {'/'.join(lease)}")
        with health.process_metrics.leading(lease[1]):
            await work(FencedTransport(transport, elector.write_budget_s))

    health.process_metrics.add_candidate(lease[1])
    print_line(f"waits to be elected: candidate for the Lease {'/'.join(lease)}")
    await elector.run(lead)
