"""Which controllers there are, and how they run: inside ``headgate up``, or beside a server by ``headgate run``.

On somebody else's server they stand for election by the very Lease that kube-controller-manager holds: whoever has it
is the one that works, so the two never do the same job at the same time.
"""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from headgate import schemas
from headgate.cli.meters import Meters
from headgate.client.fence import Fenced
from headgate.client.leases.election import Timing
from headgate.client.leases.shell import Elector, Reach, new_identity
from headgate.client.transport import Transport
from headgate.control.shell import keep_running
from headgate.control.zones import find_zone
from headgate.jobs.controller import ManagedJobs
from headgate.jobs.pods.controller import ManagedPods
from headgate.jobs.recovery import FailureRecovery
from headgate.jobs.settings import JobSettings
from headgate.kube.features import Features, without_pods
from headgate.kube.schema import Schemas
from headgate.owners.budgets.controller import Budgets
from headgate.owners.collector import Collector
from headgate.owners.contract import Controller
from headgate.owners.cron_jobs.controller import CronJobs
from headgate.owners.daemon_sets.controller import DaemonSets
from headgate.owners.deployments.controller import Deployments
from headgate.owners.deployments.hashing import TemplateHash
from headgate.owners.jobs.controller import Jobs
from headgate.owners.namespaces import Namespaces
from headgate.owners.nodes.controller import NodeLifecycle
from headgate.owners.nodes.eviction import TaintEviction
from headgate.owners.nodes.options import Patience
from headgate.owners.replica_sets.controller import ReplicaSets
from headgate.owners.role_sums import RoleSums
from headgate.owners.root_certificates import RootCertificates
from headgate.owners.service_accounts import ServiceAccounts
from headgate.owners.stateful_sets.controller import StatefulSets
from headgate.owners.stray_pods import StrayPods
from headgate.owners.ttl import FinishedJobs
from headgate.owners.unserved import Unserved
from headgate.owners.volumes.attributes import AttributesProtection
from headgate.owners.volumes.controller import Volumes
from headgate.owners.volumes.ephemeral import EphemeralClaims
from headgate.owners.volumes.protection import StorageProtection
from headgate.owners.volumes.provisioner import HollowProvisioner
from headgate.quota.engine import Settings
from headgate.quota.readiness import PodsReady
from headgate.quota.serving.controller import Quota

USER_AGENT: Final = "kube-controller-manager"
"""The name that clients know from every other cluster, as the owner of what controllers write."""
DEFAULT: Final = Patience()
LEASE: Final = ("kube-system", "kube-controller-manager")
QUOTA_LEASE: Final = ("kube-system", "headgate-quota")
JOBS_LEASE: Final = ("kube-system", "headgate-jobs")
_log: Final = logging.getLogger(__name__)
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # as in every drawn name: no vowels, hence no words


def make_controllers(authority: str, features: Features, patience: Patience) -> list[Controller]:
    """Anew: they know nothing yet. ``authority`` is the certificate that pods are told to trust."""
    return [
        Namespaces(),
        Collector(),
        StrayPods(),
        ServiceAccounts(),
        RootCertificates(authority),
        RoleSums(),
        ReplicaSets(draw),
        Deployments(template_hash()),
        Jobs(draw, features),
        FinishedJobs(),
        CronJobs(find_zone),
        StatefulSets(),
        NodeLifecycle(patience),
        TaintEviction(),
        Volumes(),
        HollowProvisioner(),
        StorageProtection(),
        AttributesProtection(),
        EphemeralClaims(),
        Budgets(),
        DaemonSets(draw, template_hash()),
        Unserved(),
    ]


@functools.cache
def template_hash() -> TemplateHash:
    return TemplateHash(Schemas.load(schemas.read()))


def draw() -> str:
    """Five letters for a name."""
    return "".join(random.choices(_LETTERS, k=5))


async def keep_controlling(
    authority: str, transport: Transport, features: Features, meters: Meters, patience: Patience = DEFAULT
) -> None:
    """Runs controllers until it is cancelled."""
    make = functools.partial(make_controllers, authority, features, patience)
    await keep_running(make, transport, failed=meters.failures_of("controllers"))


def _warn(problem: str) -> None:
    _log.warning("quota: %s", problem)


def quota_settings(features: Features, jobs: JobSettings) -> Settings:
    patience = jobs.pods_ready_s
    pods_ready = None if patience is None else PodsReady(timeout_s=patience, recovery_timeout_s=patience)
    return Settings(
        honours_gates=features.admission_gated_by,
        pods_ready=pods_ready,
        starts_after_terminating=features.start_after_terminating_pods,
        max_wait_s=jobs.max_wait_s,
    )


async def keep_quota(transport: Transport, features: Features, jobs: JobSettings, meters: Meters) -> None:
    """Gives quota to workloads until it is cancelled."""
    settings = quota_settings(features, jobs)
    try:
        failed = meters.failures_of("quota")
        await keep_running(lambda: [Quota(settings, meters.quota, _warn)], transport, failed=failed)
    finally:
        meters.quota.detach()


async def keep_jobs(transport: Transport, features: Features, settings: JobSettings, meters: Meters) -> None:
    """Keeps jobs in queues until it is cancelled."""

    def make() -> list[Controller]:
        meters.jobs.begin()
        recovery = [FailureRecovery()] if features.failure_recovery_policy else []
        pods = [] if without_pods(features) else [ManagedPods(features, settings, meters.jobs)]
        return [ManagedJobs(features, settings, meters.jobs), *pods, *recovery]

    try:
        await keep_running(make, transport, failed=meters.failures_of("jobs"))
    finally:
        meters.jobs.begin()


async def stand_and_control(
    authority: str,
    transport: Transport,
    features: Features,
    meters: Meters,
    say: Callable[[str], None],
    reach_lease: Reach,
) -> None:
    """Controls while it is elected. ``reach_lease``: see ``client/leases/shell.py``."""
    await _stand(
        LEASE, transport, lambda fenced: keep_controlling(authority, fenced, features, meters), say, reach_lease
    )


async def stand_for_quota(
    transport: Transport,
    features: Features,
    jobs: JobSettings,
    meters: Meters,
    say: Callable[[str], None],
    reach_lease: Reach,
) -> None:
    await _stand(QUOTA_LEASE, transport, lambda fenced: keep_quota(fenced, features, jobs, meters), say, reach_lease)


async def stand_for_jobs(
    transport: Transport,
    features: Features,
    settings: JobSettings,
    meters: Meters,
    say: Callable[[str], None],
    reach_lease: Reach,
) -> None:
    await _stand(JOBS_LEASE, transport, lambda fenced: keep_jobs(fenced, features, settings, meters), say, reach_lease)


async def _stand(
    lease: tuple[str, str],
    transport: Transport,
    work: Callable[[Transport], Awaitable[None]],
    say: Callable[[str], None],
    reach_lease: Reach,
) -> None:
    """What is written is fenced: nothing is sent when another one may lead."""
    elector = Elector(reach_lease, *lease, new_identity(), Timing())

    async def lead() -> None:
        say(f"elected: holds the Lease {'/'.join(lease)}")
        await work(Fenced(transport, elector.room_s))

    say(f"stands for election by the Lease {'/'.join(lease)}")
    await elector.run(lead)
