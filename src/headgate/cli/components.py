"""What runs beside the API server in the same process: a table from the words of ``--components`` to what they start.

Each is started on a :class:`~headgate.cli.server.Served` and runs until the stack is closed. ``apiserver`` is not in
the table: it is what the others run on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from headgate.cli.plan import Plan
from headgate.cli.server import Served, keep
from headgate.control.shell import keep_running
from headgate.nodes.hollow import Hollow
from headgate.nodes.options import RESOURCES, Options
from headgate.nodes.shell import Fleet
from headgate.nodes.template import Template, make_nodes
from headgate.owners.collector import Collector
from headgate.owners.contract import Controller
from headgate.owners.namespaces import Namespaces
from headgate.owners.role_sums import RoleSums
from headgate.owners.root_certificates import RootCertificates
from headgate.owners.service_accounts import ServiceAccounts
from headgate.owners.stray_pods import StrayPods

Start = Callable[[Plan, Served, contextlib.AsyncExitStack], Awaitable[None]]

_NODES_S: Final = 10.0


async def start(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    for name, begin in _STARTS.items():
        if name in plan.components:
            await begin(plan, served, stack)


async def _start_nodes(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    resources = {**RESOURCES, **plan.node_resources}
    wanted = make_nodes(plan.node_count, Template(resources=resources))
    # Without controllers of ours somebody else's watch over the nodes: theirs to untaint, and they want leases.
    options = Options(resources=resources, controller_manager="controllers" not in plan.components)
    fleet = Fleet(Hollow(options, wanted), served.client("headgate-nodes"))
    keep(stack, fleet.run())
    # Who types the first command should meet nodes; a very large fleet goes on reporting after that.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NODES_S):
            await fleet.reported.wait()


async def _start_controllers(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> None:
    authority = served.certificates.ca.read_text()
    # The name that clients know from every other cluster, as the owner of what controllers write.
    keep(stack, keep_running(lambda: _controllers(authority), served.client("kube-controller-manager")))


def _controllers(authority: str) -> list[Controller]:
    return [Namespaces(), Collector(), StrayPods(), ServiceAccounts(), RootCertificates(authority), RoleSums()]


_STARTS: Final[dict[str, Start]] = {"nodes": _start_nodes, "controllers": _start_controllers}
