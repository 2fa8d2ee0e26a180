"""Starts the components of ``headgate up --components`` that run beside the API server in the same process.

Each component is a client of a :class:`~headgate.cli.embedded.server.RunningServer` and runs until the exit stack is
closed. ``server.py`` starts the component ``apiserver``.
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
from headgate.cli.embedded.server import RunningServer
from headgate.cli.wiring.controllers import (
    USER_AGENT,
    run_builtin_controllers,
    run_gate_policies,
    run_jobs,
    run_quota,
)
from headgate.cli.wiring.event_loop import run_in_background
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import configuration_of, default_configuration, installed_plugins, scheduler_factory
from headgate.kube.feature_gates import pod_integration_problem
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.autoscaler_runner import AutoscalerRunner
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import DEFAULT_RESOURCES, HollowOptions
from headgate.runtime.embedded_components import GATE_POLICIES, check_name
from headgate.runtime.scheduler.runner import run_scheduler
from headgate.scheduling.config.types import KubeSchedulerConfiguration

Start = Callable[[ClusterOptions, RunningServer, contextlib.AsyncExitStack], Awaitable[None]]

_NODES_TIMEOUT_S: Final = 10.0
_HEARTBEAT_S: Final = 20.0  # twice the interval of a kubelet, because one process simulates up to thousands of nodes
_log: Final = logging.getLogger(__name__)


async def start(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    for name, start_component in _START_FUNCTIONS.items():
        if name in options.components:
            await start_component(options, served, stack)
            if name != "scheduler":
                _announce(served, check_name(name))
    if options.features.gate_ownership and "controllers" in options.components:
        await _start_gate_policies(options, served, stack)
        _announce(served, check_name(GATE_POLICIES))
    if options.autoscaler:
        await _start_autoscaler(options, served, stack)


def _announce(served: RunningServer, name: str) -> None:
    """Says in the health checks that a component runs: ``headgate run`` does not start the same one beside it."""
    served.health.add(name, lambda: "")


async def _start_nodes(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    resources = {**DEFAULT_RESOURCES, **options.node_resources}
    nodes = make_nodes(options.node_count, NodeTemplate(resources=resources))
    # A node lifecycle controller, Headgate's or another one, sets the taints and expects heartbeats.
    heartbeat_s = min(_HEARTBEAT_S, options.node_lifecycle.grace_s / 2.5)
    hollow_options = HollowOptions(resources=resources, controller_manager=True, heartbeat_s=heartbeat_s)
    kubelets = HollowKubelets(hollow_options, nodes)
    runner = HollowKubeletRunner(kubelets, served.client("headgate-nodes"), node_clock=served.node_clock)
    run_in_background(stack, runner.run())
    # The first command of a user should find nodes. Very many nodes report later.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NODES_TIMEOUT_S):
            await runner.reported.wait()


async def _start_autoscaler(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    machine = InstanceType("machine", {**DEFAULT_RESOURCES, **options.node_resources})
    model = make_autoscaler(options.autoscaler, machine)
    run_in_background(stack, AutoscalerRunner(model, served.client(options.autoscaler), options.autoscaler).run())


async def _start_controllers(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    authority, transport = served.certificates.ca.read_text(), served.client(USER_AGENT)
    run_in_background(
        stack, run_builtin_controllers(authority, transport, options.features, served.metrics, options.node_lifecycle)
    )


async def _start_quota(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    served.metrics.show_quota()
    run_in_background(stack, run_quota(served.client("headgate-quota"), options.features, options.jobs, served.metrics))


async def _start_jobs(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    served.metrics.show_jobs()
    if problem := pod_integration_problem(options.features):
        _log.warning("jobs: %s", problem)
    run_in_background(stack, run_jobs(served.client("headgate-jobs"), options.features, options.jobs, served.metrics))


async def _start_gate_policies(
    options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack
) -> None:
    served.metrics.show_gate_policies()
    run_in_background(stack, run_gate_policies(served.client("headgate-gate-policies"), served.metrics))


async def _start_scheduler(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> None:
    plugins = installed_plugins(_log.warning)
    configuration = scheduler_configuration(options.scheduler_config, plugins)
    make = scheduler_factory(
        configuration,
        plugins,
        options.features,
        all_profiles_wait=options.all_profiles_wait,
        gated_events_per_hour=options.gated_events_per_hour,
    )
    if isinstance(make, str):
        raise StartupError(make)
    transport, health = served.client("headgate-scheduler"), served.metrics.health_registry
    run_in_background(stack, run_scheduler(make, transport, health=health, create_pod_groups=options.create_pod_groups))
    for profile in configuration.profiles:
        _announce(served, check_name("scheduler", profile.name))


def scheduler_configuration(file: Path | None, plugins: InstalledPlugins) -> KubeSchedulerConfiguration:
    """The profiles of the file, and the default profiles that the file does not name."""
    standard = default_configuration(SCHEDULERS, plugins)
    if file is None:
        return standard
    parsed = configuration_of(file, plugins, ("headgate",))
    if isinstance(parsed, str):
        raise StartupError(parsed)
    for remark in parsed.remarks:
        _log.warning("%s: %s", file, remark)
    named = {profile.name for profile in parsed.profiles}
    others = (profile for profile in standard.profiles if profile.name not in named)
    return msgspec.structs.replace(parsed, profiles=(*parsed.profiles, *others))


_START_FUNCTIONS: Final[dict[str, Start]] = {
    "nodes": _start_nodes,
    "controllers": _start_controllers,
    "scheduler": _start_scheduler,
    "quota": _start_quota,
    "jobs": _start_jobs,
}
