"""The check before the start whether the ``headgate up`` that serves the API runs the same components itself.

Components of ``headgate up`` hold no Leases: they end with their API server. The server names them as health checks of
``/readyz?verbose``, which every user may read. Other API servers have no checks of these names. ``lease_owners.py``
checks for other programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from headgate.http.transport import HTTPRequest
from headgate.runtime.preflight import PreflightSteps

GATE_POLICIES: Final = "gate-policies"
_SCHEDULER: Final = "scheduler-"
_CHECK: Final = "[+]component-"
_ACCEPT: Final = {"accept": "*/*"}


def check_name(component: str, scheduler_name: str = "") -> str:
    """The name of the health check that says that a component runs. ``scheduler_name``: for the scheduler, which has a
    check for each of its names."""
    return f"component-{_SCHEDULER}{scheduler_name}" if scheduler_name else f"component-{component}"


def check_embedded_components(
    components: Collection[str], scheduler_names: Iterable[str], *, has_queues: bool
) -> PreflightSteps:
    """``components``: of this process. ``scheduler_names``: of its scheduler. ``has_queues``: its scheduler gives
    capacity of queues to pods."""
    response = yield HTTPRequest("GET", "/readyz", "verbose", _ACCEPT)
    lines = response.body.decode(errors="replace").splitlines()
    running = {each.removeprefix(_CHECK).removesuffix(" ok") for each in lines if each.startswith(_CHECK)}
    names = {each.removeprefix(_SCHEDULER) for each in running if each.startswith(_SCHEDULER)}
    same = [each for each in components if each in running]
    if "scheduler" in components and (names & {*scheduler_names} or (names and has_queues)):
        same.append("scheduler")
    if "gates" in components and names:
        same.append("gates")
    if not same:
        return ""
    text = f"the headgate up that serves this API does the work of {' and '.join(sorted(same))} itself"
    others = "its scheduler gives capacity of queues to pods; " if "gates" in same else ""
    return f"{text}; {others}start it with --components that leaves this work to other processes, or pass --takeover"
