"""The options that say which pods are gated and which users may mark a pod as admitted, for all commands that gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headgate.capacity.names import OPT_IN
from headgate.scheduling.pod_conditions import GATED_EVENTS_PER_HOUR

F = TypeVar("F", bound=Callable[..., Any])


def gating_options(command: F) -> F:
    """Adds the parameters ``gates_all_pods`` and ``trusted_users`` to a command."""
    command = click.option(
        "--trusted-user",
        "trusted_users",
        multiple=True,
        metavar="NAME",
        help="A user name of Headgate, which may write the annotation that marks a pod as admitted. May be repeated.",
    )(command)
    return click.option(
        "--gate-all-pods/--no-gate-all-pods",
        "gates_all_pods",
        default=False,
        help=f'Gate all new pods, unless the annotation {OPT_IN} says "false".',
    )(command)


def waiting_option(command: F) -> F:
    """Adds the parameter ``all_profiles_wait`` to a command."""
    return click.option(
        "--wait-for-terminating/--no-wait-for-terminating",
        "all_profiles_wait",
        default=False,
        help="Pods of every profile get a nominated node and wait for its terminating pods, if those leave enough "
        "capacity, before they become Unschedulable. Pods that use queues or have Kueue's quota always do.",
    )(command)


def gated_events_option(command: F) -> F:
    """Adds the parameter ``gated_events_per_hour`` to a command."""
    return click.option(
        "--gated-pod-events",
        "gated_events_per_hour",
        type=click.IntRange(0, 1_000_000),
        default=GATED_EVENTS_PER_HOUR,
        show_default=True,
        metavar="N",
        help="Emit at most N Events per hour that name the gates of pods which are gated for ten seconds. 0: none.",
    )(command)


def groups_option(command: F) -> F:
    """Adds the parameter ``create_pod_groups`` to a command."""
    return click.option(
        "--podgroups-for-bare-pods/--no-podgroups-for-bare-pods",
        "create_pod_groups",
        default=False,
        help="Create a PodGroup for each pod of a queue that names none, as Volcano does; it is deleted with its pod.",
    )(command)
