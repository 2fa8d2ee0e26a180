"""The component ``gates`` of ``headgate run``: its options, its settings, and how the leader runs it.

It removes the queue gates of pods that another scheduler binds. Two programs that reserve capacity of the same queues
would promise it twice, so :func:`conflict_with_profiles` refuses a scheduler with queues in the same process;
``runtime/preflight.py`` finds one in another process.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

import click
import msgspec

from headgate.capacity.conf import DEFAULTS
from headgate.cli.wiring.controllers import run_elected
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import build_checked_plugin
from headgate.client.io.leader_elector import ConnectTransport
from headgate.http.transport import Transport
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.runtime.gates.runner import GateControllerFactory, run_gates
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.lease_owners import GATES_LEASE
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.gates.gate_controller import GateController, GateSettings

F = TypeVar("F", bound=Callable[..., Any])

LEASES_HAVE_NO_EFFECT: Final = (
    "ReservationLease has no effect on pods of the component gates: a pod without a gate cannot be gated again, and "
    "its scheduler may bind it at any time, so its capacity stays reserved until it has a node or is deleted"
)
DEFAULT_NAMES: Final = ("default-scheduler",)


def gated_scheduler_names_option(command: F) -> F:
    """Adds ``--gated-scheduler-name``, the parameter ``gated_scheduler_names``, to a command."""
    return click.option(
        "--gated-scheduler-name",
        "gated_scheduler_names",
        multiple=True,
        metavar="NAME",
        help="Remove the queue gates of pods with this schedulerName, which another scheduler binds (component gates)."
        f" May be repeated. [default: {', '.join(DEFAULT_NAMES)}]",
    )(command)


def effective_gated_scheduler_names(
    components: Collection[str], gated_scheduler_names: Collection[str]
) -> tuple[str, ...]:
    """The ``schedulerName`` values of the pods whose queue gates the component ``gates`` removes. It may run in another
    process, if this one serves only webhooks. Raises ``click.UsageError``."""
    if "" in gated_scheduler_names:
        raise click.BadParameter("a name may not be empty", param_hint="--gated-scheduler-name")
    if gated_scheduler_names and not {"gates", "webhooks"} & set(components):
        raise click.UsageError("--gated-scheduler-name is for the components gates and webhooks: add --components")
    return tuple(dict.fromkeys(gated_scheduler_names)) or (DEFAULT_NAMES if "gates" in components else ())


def conflict_with_profiles(
    components: Collection[str], gated_scheduler_names: Collection[str], configuration: KubeSchedulerConfiguration
) -> str:
    """Why the components ``scheduler`` and ``gates`` cannot run together; empty if they can."""
    if not {"scheduler", "gates"} <= set(components):
        return ""
    shared = sorted({profile.name for profile in configuration.profiles} & set(gated_scheduler_names))
    if shared:
        return (
            f"pods with schedulerName {', '.join(shared)} would be bound by the component scheduler and ungated by the "
            "component gates; leave one of the components out, or name other schedulers"
        )
    with_queues = sorted(profile.name for profile in configuration.profiles if profile.queues is not None)
    if with_queues:
        return (
            f"the component scheduler reserves capacity of queues for pods of {', '.join(with_queues)}, and the "
            "component gates would reserve the same capacity again; leave gates out, or pass --scheduler-name with a "
            "name that does not use queues"
        )
    return ""


def gate_controller_factory(
    names: Collection[str],
    features: FeatureGates,
    jobs: JobSettings,
    configuration: KubeSchedulerConfiguration,
    plugins: InstalledPlugins,
    wall_clock: Callable[[], float] = time.time,
) -> GateControllerFactory:
    """``configuration``: queues and their plugins are those of its first profile with queues, which comes from a
    ``volcano-scheduler.conf``; without one the defaults apply."""
    conf = next((each.queues for each in configuration.profiles if each.queues is not None), DEFAULTS)
    settings = GateSettings(
        time_of_day=wall_clock,
        enabled=features.queue_allocation_gate,
        delays_starts=features.start_after_terminating_pods,
        max_wait_s=jobs.max_wait_s,
        conf=msgspec.structs.replace(conf, gang_atomic=features.gang_atomic_ungate),
        timer_clock=time.perf_counter,
    )

    def make(warn: Callable[[str], None]) -> GateController:
        external = conf.external_plugins
        built = [build_checked_plugin(each.name, plugins.builders[each.name], each.arguments) for each in external]
        return GateController(names, settings, warn, built)

    return make


async def run_elected_gates(
    new_controller: GateControllerFactory,
    transport: Transport,
    health: HealthRegistry,
    print_line: Callable[[str], None],
    connect: ConnectTransport,
    *,
    write_queue_status: bool,
) -> None:
    work = functools.partial(run_gates, new_controller, health=health, write_queue_status=write_queue_status)
    await run_elected(GATES_LEASE, transport, work, print_line, connect, health)
