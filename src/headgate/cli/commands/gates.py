"""``headgate gates``: lists the scheduling gates that hold pods, and removes one by name."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import click

from headgate.cli.options.cluster_access import (
    chosen_namespace,
    cluster_options,
    connect,
    exit_with_error,
    namespace_options,
    perform,
    rest_config_or_exit,
)
from headgate.cli.options.listing import Listing, Table
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import list_output_option, watch_option
from headgate.cli.options.suggestions import SuggestingGroup
from headgate.cli.wiring.list_runner import run_listing
from headgate.client.gate_lifting import GateLiftOutcome, GateLiftResult
from headgate.client.gated_pods import GateCount, GatedPod, count_gates, gated_pods, setter_of
from headgate.client.kubeconfig import RESTConfig
from headgate.client.pager import ListRefused
from headgate.http.transport import Transport, Unreachable
from headgate.kube.labels import parse_selector
from headgate.kube.timestamps import human_duration, parse_time
from headgate.runtime.actions.gate_lifts import lift_gate
from headgate.runtime.inspection.gate_owners import GateOwners, gate_owners


@click.group(cls=SuggestingGroup, short_help="List the scheduling gates that hold pods, and remove one.")
@log_options
def command() -> None:
    """Scheduling gates (spec.schedulingGates) of a running cluster: list them, remove one by name.

    \b
    Example:
      headgate gates list -A
    """


@command.command("list", short_help="List gates, with the number of pods that each holds.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only pods with these labels.")
@list_output_option
@watch_option
@namespace_options
@cluster_options
@log_options
def show(
    selector: str, output: str, watch: bool, namespace: str, all_namespaces: bool, kubeconfig: str, context: str
) -> None:
    """Print every gate, how many pods it holds, the oldest of them, and which client set it.

    The client is read from the managed fields of the oldest pod. A webhook's gate is listed under the pod's creator.

    On a cluster with GatePolicies, OWNER shows which users may lift the gate. HEALTH shows whether its policy is
    accepted, its owner renews its Lease, and no pod waits too long. AGE is the time that the oldest pod has waited.

    \b
    Example:
      headgate gates list -A
      headgate gates list -n team-a -l app=training
      headgate gates list -A --watch
    """
    _check_selector(selector)
    rest_config = rest_config_or_exit("gates list", kubeconfig, context)
    scope = chosen_namespace(rest_config, namespace, all_namespaces)

    async def make(transport: Transport) -> Listing | str:
        found = await _count_gates(transport, scope, selector)
        return found.text if isinstance(found, ListRefused) else _listing(*found)

    run_listing("gates list", rest_config, output, watch, make)


def _listing(rows: list[tuple[GateCount, str | ListRefused]], owners: GateOwners | ListRefused) -> Listing:
    now_s = time.time()
    has_owners = isinstance(owners, ListRefused) or owners.is_served
    cells = tuple(
        (
            *(each.gate, str(each.pods), each.oldest.key, _age(each.oldest, now_s), _setter_text(by)),
            *(_owner_texts(owners, each.gate) if has_owners else ()),
        )
        for each, by in rows
    )
    refused = [by.text for by in (*(by for _, by in rows), owners) if isinstance(by, ListRefused)] if rows else []
    return Listing(
        (
            Table(
                ("GATE", "PODS", "OLDEST", "AGE", "SET BY", *(("OWNER", "HEALTH") if has_owners else ())),
                cells,
                tuple(f"gate/{each.gate}" for each, _ in rows),
            ),
        ),
        {"gates": [_fields(each, by, owners) for each, by in rows], "missing": list(dict.fromkeys(refused))},
        complaints=tuple(dict.fromkeys(refused)),
        nothing="No pod has a scheduling gate.",
    )


def _fields(each: GateCount, by: str | ListRefused, owners: GateOwners | ListRefused) -> dict[str, Any]:
    """Fields that are not known are left out."""
    owner = None if isinstance(owners, ListRefused) else owners.by_gate.get(each.gate)
    return {
        "gate": each.gate,
        "pods": each.pods,
        "oldest": {"namespace": each.oldest.namespace, "name": each.oldest.name, "created": each.oldest.created},
        **({} if isinstance(by, ListRefused) else {"setBy": by}),
        **({} if owner is None else {"policy": owner.policy, "liftedBy": owner.lifters, "health": owner.health}),
    }


def _owner_texts(owners: GateOwners | ListRefused, gate: str) -> tuple[str, str]:
    if isinstance(owners, ListRefused):
        return "?", "?"
    found = owners.by_gate.get(gate)
    return ("-", "-") if found is None else (f"{found.lifters} ({found.policy})", found.health)


def _setter_text(setter: str | ListRefused) -> str:
    return "?" if isinstance(setter, ListRefused) else setter or "-"


@command.command("lift", short_help="Remove a gate from pods.")
@click.argument("name")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="From the pods with these labels.")
@click.option("--all", "from_all", is_flag=True, help="From all pods of the namespace.")
@click.option("--dry-run", is_flag=True, help="The server checks everything and writes nothing.")
@namespace_options
@cluster_options
@log_options
def lift_command(
    name: str,
    selector: str,
    from_all: bool,
    dry_run: bool,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Remove the gate NAME from pods; their other gates stay.

    Each pod is patched once, by its uid: a new pod with the same name keeps its gate. A gate that is
    already gone is reported. A pod that fails does not stop the others, and the exit code is then 1.

    A gate has an owner, usually a controller. A pod whose last gate is removed by hand goes to the scheduler at once.

    \b
    Example:
      headgate gates lift example.com/dependency-ready -l app=training --dry-run
      headgate gates lift example.com/dependency-ready -n team-a --all
    """
    _check_selector(selector)
    if bool(selector) == from_all:
        raise click.UsageError("select the pods: pass either -l SELECTOR or --all")
    rest_config = rest_config_or_exit("gates lift", kubeconfig, context)
    scope = chosen_namespace(rest_config, namespace, all_namespaces)
    try:
        done = asyncio.run(_lift_all(rest_config, scope, selector, name, dry_run))
    except Unreachable as problem:
        exit_with_error("gates lift", str(problem))
    if isinstance(done, ListRefused):
        exit_with_error("gates lift", done.text)
    for each in done:
        if each.outcome is not GateLiftOutcome.LIFTED:
            line = f"pod {each.pod.key}: {each.outcome.value}"
            click.echo(f"{line}: {each.detail}" if each.detail else line, err=True)
    counts = {outcome: sum(each.outcome is outcome for each in done) for outcome in GateLiftOutcome}
    verb = "would be lifted" if dry_run else "lifted"
    click.echo(
        f"{name}: {verb} from {counts[GateLiftOutcome.LIFTED]} of {len(done)} pods, "
        f"{counts[GateLiftOutcome.ALREADY_GONE]} already gone, {counts[GateLiftOutcome.FAILED]} failed"
    )
    if counts[GateLiftOutcome.FAILED]:
        sys.exit(1)


def _check_selector(selector: str) -> None:
    parsed = parse_selector(selector)
    if isinstance(parsed, str):
        raise click.BadParameter(parsed, param_hint="-l")


async def _count_gates(
    transport: Transport, namespace: str, selector: str
) -> tuple[list[tuple[GateCount, str | ListRefused]], GateOwners | ListRefused] | ListRefused:
    pods = await perform(transport, gated_pods(namespace, selector))
    if isinstance(pods, ListRefused):
        return pods
    counts = count_gates(pods)
    rows = [(each, await perform(transport, setter_of(each.gate, each.oldest))) for each in counts]
    return rows, await perform(transport, gate_owners())


async def _lift_all(
    rest_config: RESTConfig, namespace: str, selector: str, gate: str, dry_run: bool
) -> list[GateLiftResult] | ListRefused:
    async with connect(rest_config) as transport:
        pods = await perform(transport, gated_pods(namespace, selector))
        if isinstance(pods, ListRefused):
            return pods
        return await lift_gate(transport, gate, pods, dry_run=dry_run, progress=_progress)


def _progress(done: int, total: int) -> None:
    """Prints a progress line if standard error is a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\rlifting: {done} of {total} pods", nl=done >= total, err=True)


def _age(pod: GatedPod, now_s: float) -> str:
    created = parse_time(pod.created)
    return "<unknown>" if isinstance(created, str) else human_duration(now_s - float(created))
