"""What runs beside the API server in the same process: a table from the words of ``--components`` to what they start.

Each is started on a :class:`~headgate.cli.server.Served` and runs until the stack is closed. ``apiserver`` is not in
the table: it is what the others run on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from headgate.cli.autoscalers import make_autoscaler
from headgate.cli.controllers import USER_AGENT, keep_controlling, keep_jobs, keep_quota
from headgate.cli.plan import SCHEDULERS, Plan, UpProblem
from headgate.cli.plugins import Found
from headgate.cli.scheduler import configuration_of, default_configuration, installed_plugins, maker
from headgate.cli.server import Served, keep
from headgate.control.scheduler.shell import keep_scheduling
from headgate.kube.features import without_pods
from headgate.nodes.hollow import Hollow
from headgate.nodes.models.machine import Shape
from headgate.nodes.models.shell import Autoscaler
from headgate.nodes.options import RESOURCES, Options
from headgate.nodes.shell import Fleet
from headgate.nodes.template import Template, make_nodes
from headgate.scheduling.configuration.values import Configuration

Start = Callable[[Plan, Served, contextlib.AsyncExitStack], Awaitable[None]]

_NODES_S: Final = 10.0
_BEAT_S: Final = 20.0  # half as often as a kubelet: a thousand of them share this process
_log: Final = logging.getLogger(__name__)


async def start(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    for name, begin in _STARTS.items():
        if name in plan.components:
            await begin(plan, served, stack)
    if plan.autoscaler:
        await _start_autoscaler(plan, served, stack)


async def _start_nodes(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    resources = {**RESOURCES, **plan.node_resources}
    wanted = make_nodes(plan.node_count, Template(resources=resources))
    # Controllers watch over the nodes, ours or somebody else's: theirs to taint and untaint, and they want heartbeats.
    beat_s = min(_BEAT_S, plan.patience.grace_s / 2.5)
    options = Options(resources=resources, controller_manager=True, heartbeat_s=beat_s)
    fleet = Fleet(Hollow(options, wanted), served.client("headgate-nodes"))
    keep(stack, fleet.run())
    # Who types the first command should meet nodes; a very large fleet goes on reporting after that.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NODES_S):
            await fleet.reported.wait()


async def _start_autoscaler(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    machine = Shape("machine", {**RESOURCES, **plan.node_resources})
    model = make_autoscaler(plan.autoscaler, machine)
    keep(stack, Autoscaler(model, served.client(plan.autoscaler), plan.autoscaler).run())


async def _start_controllers(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    authority, transport = served.certificates.ca.read_text(), served.client(USER_AGENT)
    keep(stack, keep_controlling(authority, transport, plan.features, served.meters, plan.patience))


async def _start_quota(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    served.meters.show_quota()
    keep(stack, keep_quota(served.client("headgate-quota"), plan.features, plan.jobs, served.meters))


async def _start_jobs(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    served.meters.show_jobs()
    if problem := without_pods(plan.features):
        _log.warning("jobs: %s", problem)
    keep(stack, keep_jobs(served.client("headgate-jobs"), plan.features, plan.jobs, served.meters))


async def _start_scheduler(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    found = installed_plugins(_log.warning)
    configuration = scheduler_configuration(plan.scheduler_config, found)
    make = maker(configuration, found, plan.features, all_wait=plan.all_wait, gated_events=plan.gated_events)
    if isinstance(make, str):
        raise UpProblem(make)
    transport, board = served.client("headgate-scheduler"), served.meters.board
    keep(stack, keep_scheduling(make, transport, board=board, makes_groups=plan.makes_groups))


def scheduler_configuration(file: Path | None, found: Found) -> Configuration:
    """The profiles of the file, and of those that run by default the ones it does not name."""
    standard = default_configuration(SCHEDULERS, found)
    if file is None:
        return standard
    read = configuration_of(file, found, ("headgate",))
    if isinstance(read, str):
        raise UpProblem(read)
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
