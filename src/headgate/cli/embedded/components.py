"""The components that run beside the API server in the same process: a table from the words of ``--components`` to
their start functions.

Each is started on a :class:`~headgate.cli.embedded.server.RunningServer` and runs until the stack is closed.
``apiserver`` is not in the table: the others run on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from headgate.cli.embedded.autoscalers import make_autoscaler
from headgate.cli.embedded.cluster_options import SCHEDULERS, ClusterOptions, StartupError
from headgate.cli.embedded.server import RunningServer, run_in_background
from headgate.cli.wiring.controllers import USER_AGENT, run_builtin_controllers, run_jobs, run_quota
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import configuration_of, default_configuration, installed_plugins, scheduler_factory
from headgate.kube.feature_gates import pod_integration_problem
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.autoscaler_runner import AutoscalerRunner
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import DEFAULT_RESOURCES, HollowOptions
from headgate.runtime.scheduler.runner import run_scheduler
from headgate.scheduling.config.types import KubeSchedulerConfiguration

Start = Callable[[ClusterOptions, RunningServer, contextlib.AsyncExitStack], Awaitable[None]]

_NODES_S: Final = 10.0
_BEAT_S: Final = 20.0  # half as often as a kubelet: a thousand of them share this process
_log: Final = logging.getLogger(__name__)


async def start(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    for name, begin in _STARTS.items():
        if name in plan.components:
            await begin(plan, served, stack)
    if plan.autoscaler:
        await _start_autoscaler(plan, served, stack)


async def _start_nodes(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    resources = {**DEFAULT_RESOURCES, **plan.node_resources}
    wanted = make_nodes(plan.node_count, NodeTemplate(resources=resources))
    # Controllers watch over the nodes, ours or somebody else's: theirs to taint and untaint, and they want heartbeats.
    beat_s = min(_BEAT_S, plan.patience.grace_s / 2.5)
    options = HollowOptions(resources=resources, controller_manager=True, heartbeat_s=beat_s)
    fleet = HollowKubeletRunner(HollowKubelets(options, wanted), served.client("headgate-nodes"))
    run_in_background(stack, fleet.run())
    # Who types the first command should meet nodes; a very large fleet goes on reporting after that.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NODES_S):
            await fleet.reported.wait()


async def _start_autoscaler(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    machine = InstanceType("machine", {**DEFAULT_RESOURCES, **plan.node_resources})
    model = make_autoscaler(plan.autoscaler, machine)
    run_in_background(stack, AutoscalerRunner(model, served.client(plan.autoscaler), plan.autoscaler).run())


async def _start_controllers(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    authority, transport = served.certificates.ca.read_text(), served.client(USER_AGENT)
    run_in_background(stack, run_builtin_controllers(authority, transport, plan.features, served.meters, plan.patience))


async def _start_quota(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    served.meters.show_quota()
    run_in_background(stack, run_quota(served.client("headgate-quota"), plan.features, plan.jobs, served.meters))


async def _start_jobs(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    served.meters.show_jobs()
    if problem := pod_integration_problem(plan.features):
        _log.warning("jobs: %s", problem)
    run_in_background(stack, run_jobs(served.client("headgate-jobs"), plan.features, plan.jobs, served.meters))


async def _start_scheduler(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    found = installed_plugins(_log.warning)
    configuration = scheduler_configuration(plan.scheduler_config, found)
    make = scheduler_factory(
        configuration, found, plan.features, all_wait=plan.all_wait, gated_events=plan.gated_events
    )
    if isinstance(make, str):
        raise StartupError(make)
    transport, board = served.client("headgate-scheduler"), served.meters.health
    run_in_background(stack, run_scheduler(make, transport, health=board, create_pod_groups=plan.makes_groups))


def scheduler_configuration(file: Path | None, found: InstalledPlugins) -> KubeSchedulerConfiguration:
    """The profiles of the file, and of those that run by default the ones it does not name."""
    standard = default_configuration(SCHEDULERS, found)
    if file is None:
        return standard
    read = configuration_of(file, found, ("headgate",))
    if isinstance(read, str):
        raise StartupError(read)
    for remark in read.remarks:
        _log.warning("%s: %s", file, remark)
    named = {profile.name for profile in read.profiles}
    others = (profile for profile in standard.profiles if profile.name not in named)
    return msgspec.structs.replace(read, profiles=(*read.profiles, *others))


_STARTS: Final[dict[str, Start]] = {
    "nodes": _start_nodes,
    "controllers": _start_controllers,
    "scheduler": _start_scheduler,
    "quota": _start_quota,
    "jobs": _start_jobs,
}
