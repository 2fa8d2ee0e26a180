"""The options that say which pods are gated and which users may mark a pod as admitted, for all commands that gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headgate.capacity.names import OPT_IN
from headgate.scheduling.pod_conditions import GATED_EVENTS_PER_HOUR

F = TypeVar("F", bound=Callable[..., Any])


def gating_options(command: F) -> F:
    """The command gets ``gates_all`` and ``trusted_users``."""
    command = click.option(
        "--trusted-user",
        "trusted_users",
        multiple=True,
        metavar="NAME",
        help="A user that Headgate works as, who may write the proof that a pod was admitted. May be repeated.",
    )(command)
    return click.option(
        "--gate-all-pods",
        "gates_all",
        is_flag=True,
        help=f'Gate all new pods, unless the annotation {OPT_IN} says "false".',
    )(command)


def waiting_option(command: F) -> F:
    """The command gets ``all_wait``."""
    return click.option(
        "--wait-for-terminating",
        "all_wait",
        is_flag=True,
        help="Pods of every profile wait for terminating pods that leave enough room, with a nominated node, before "
        "they are called Unschedulable. Pods that use queues or have Kueue's quota always do.",
    )(command)


def gated_events_option(command: F) -> F:
    """The command gets ``gated_events``."""
    return click.option(
        "--gated-pod-events",
        "gated_events",
        type=click.IntRange(0, 1_000_000),
        default=GATED_EVENTS_PER_HOUR,
        show_default=True,
        metavar="N",
        help="Emit at most N Events per hour that name the gates of pods which are gated for ten seconds. 0: none.",
    )(command)


def groups_option(command: F) -> F:
    """The command gets ``create_pod_groups``."""
    return click.option(
        "--podgroups-for-bare-pods",
        "create_pod_groups",
        is_flag=True,
        help="Make a PodGroup for each pod of a queue that names none, as Volcano does; it is deleted with its pod.",
    )(command)
