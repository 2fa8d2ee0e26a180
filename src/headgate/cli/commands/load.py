"""``headgate load``: creates many pods, jobs, nodes and queues of one shape, and removes them.

``cli/loads/`` has the objects and the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import click
import yaml

from headgate.cli.commands.nodes import NodesRefused, check_simulated, list_nodes
from headgate.cli.embedded.cluster_options import parse_sizes
from headgate.cli.loads.load_objects import KINDS, LABEL, LoadShape, PlannedObject, name_problem, planned_objects
from headgate.cli.loads.load_runner import LoadResult, LoadRunner, check_on_server, find_load
from headgate.cli.options.cluster_access import (
    chosen_namespace,
    cluster_options,
    connect_component,
    exit_with_error,
    namespace_options,
    rest_config_or_exit,
)
from headgate.cli.options.log_options import log_options
from headgate.cli.options.progress import ProgressBar
from headgate.cli.wiring.event_loop import loop_factory
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Transport, Unreachable

_INTERRUPTED: Final = 130
_IMAGE: Final = "registry.k8s.io/pause:3.9"
_MOST: Final = 1_000_000


def _count_option(kind: str, help_text: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{kind}s", f"{kind}_count", type=click.IntRange(0, _MOST), default=0, metavar="N", help=help_text
    )


@click.command(short_help="Create many pods, jobs, nodes or queues, and remove them.")
@click.argument("name")
@_count_option("pod", "How many pods.")
@_count_option("job", "How many Jobs.")
@_count_option("node", "How many simulated nodes.")
@_count_option("queue", "How many of Volcano's Queues. Pods and Jobs of the load take them in turn.")
@click.option(
    "--rate", type=click.FloatRange(min=0), default=0.0, metavar="N", help="Objects per second. [default: no limit]"
)
@click.option(
    "--concurrency", type=click.IntRange(1, 256), default=16, show_default=True, help="Requests at the same time."
)
@click.option(
    "--retry-for",
    "retry_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a request is repeated while the server is overloaded or does not respond.",
)
@click.option("--cpu", default="100m", show_default=True, metavar="QUANTITY", help="CPU that each pod requests.")
@click.option("--memory", default="64Mi", show_default=True, metavar="QUANTITY", help="Memory that each pod requests.")
@click.option("--resource", "extra", multiple=True, metavar="NAME=QUANTITY", help="A further request. May be repeated.")
@click.option("--run-for", default="", metavar="DURATION", help="How long pods run on simulated nodes, such as 30s.")
@click.option("--image", default=_IMAGE, show_default=True, help="The image of the pods, for nodes that are real.")
@click.option("--scheduler-name", default="", metavar="NAME", help="[default: volcano for pods with a queue]")
@click.option(
    "--queue", default="", metavar="NAME", help="Volcano's Queue of the pods, which opt in to the queue gate."
)
@click.option("--local-queue", default="", metavar="NAME", help="Kueue's LocalQueue of the Jobs and pods.")
@click.option("--gate", "gates", multiple=True, metavar="NAME", help="A scheduling gate of the pods. May be repeated.")
@click.option("--pods-per-job", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Parallelism.")
@click.option("--queue-cpu", default="", metavar="QUANTITY", help="The limit of each queue. [default: no limit]")
@click.option("--node-cpu", default="8", show_default=True, metavar="QUANTITY", help="CPU of each simulated node.")
@click.option("--node-memory", default="32Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option(
    "--node-resource", "node_extra", multiple=True, metavar="NAME=QUANTITY", help="A further resource of each node."
)
@click.option("--dry-run", is_flag=True, help="Print one object of each kind, let the server check it, write nothing.")
@click.option("--delete", "is_deletion", is_flag=True, help="Remove what the load has made.")
@namespace_options
@cluster_options
@log_options
def command(
    name: str,
    pod_count: int,
    job_count: int,
    node_count: int,
    queue_count: int,
    rate: float,
    concurrency: int,
    retry_s: float,
    cpu: str,
    memory: str,
    extra: tuple[str, ...],
    run_for: str,
    image: str,
    scheduler_name: str,
    queue: str,
    local_queue: str,
    gates: tuple[str, ...],
    pods_per_job: int,
    queue_cpu: str,
    node_cpu: str,
    node_memory: str,
    node_extra: tuple[str, ...],
    dry_run: bool,
    is_deletion: bool,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Create many objects of one shape. All have the label headgate.dev/load=NAME.

    The names of the objects are fixed before they are sent (NAME-pod-00001 and so on): no retry creates a second
    object, and after Ctrl-C or an error the same command continues. Without a number of objects the command shows what
    exists of the load.

    \b
    Example:
      headgate load burst --pods 1000 --cpu 500m --run-for 30s
      headgate load tenants --queues 20 --queue-cpu 8 --pods 2000 --rate 50
      headgate load burst
      headgate load burst --delete
    """
    if problem := name_problem(name):
        raise click.UsageError(problem)
    counts = {"pod": pod_count, "job": job_count, "node": node_count, "queue": queue_count}
    if (is_deletion or not any(counts.values())) and (dry_run or (is_deletion and any(counts.values()))):
        raise click.UsageError(
            "--delete and --dry-run: --delete takes no numbers, --dry-run needs one, such as --pods 10"
        )
    if any(counts.values()) and all_namespaces:
        raise click.UsageError("-A is for --delete, and for showing a load: objects are created in one namespace")
    rest_config = rest_config_or_exit("load", kubeconfig, context)
    scope = chosen_namespace(rest_config, namespace, all_namespaces)
    command_line = f"headgate load {name}"
    if not any(counts.values()):
        options = (concurrency, rate, retry_s)
        _run(
            _delete(rest_config, name, scope or None, options)
            if is_deletion
            else _show(rest_config, name, scope or None)
        )
        return
    shape = LoadShape(
        name=name,
        namespace=scope,
        counts=counts,
        requests=_sizes({"cpu": cpu, "memory": memory}, extra, "--resource"),
        image=image,
        scheduler_name=scheduler_name,
        queue=queue,
        local_queue=local_queue,
        gates=gates,
        run_for=run_for,
        pods_per_job=pods_per_job,
        queue_capability=_sizes({"cpu": queue_cpu}, (), "--queue-cpu") if queue_cpu else {},
        node_resources={
            "pods": "110",
            **_sizes({"cpu": node_cpu, "memory": node_memory}, node_extra, "--node-resource"),
        },
    )
    _run(
        _dry_run(rest_config, shape)
        if dry_run
        else _create(rest_config, shape, command_line, (concurrency, rate, retry_s))
    )


def _sizes(by_name: dict[str, str], extra: Sequence[str], option: str) -> dict[str, str]:
    found = parse_sizes(by_name, extra)
    if isinstance(found, str):
        raise click.UsageError(found if option.startswith("--node") else found.replace("--node-", "--"))
    return found


def _run(steps: Any) -> None:
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            code: int = runner.run(steps)
    except (NodesRefused, Unreachable) as problem:
        exit_with_error("load", str(problem))
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo(
            "headgate load: interrupted at once: requests that were on their way may have been executed", err=True
        )
        sys.exit(_INTERRUPTED)
    if code:
        sys.exit(code)


async def _planned(transport: Transport, shape: LoadShape) -> list[PlannedObject]:
    existing: list[dict[str, Any]] = []
    if shape.counts.get("node"):
        existing = await list_nodes(transport)
        await check_simulated(transport, existing)
    return list(planned_objects(shape, existing))


async def _dry_run(rest_config: RESTConfig, shape: LoadShape) -> int:
    async with connect_component(rest_config) as transport:
        planned = await _planned(transport, shape)
        first = {each.kind: each for each in reversed(planned)}
        problems = [problem for each in first.values() if (problem := await check_on_server(transport, each))]
    for each in reversed(first.values()):
        click.echo("---")
        click.echo(yaml.safe_dump(each.obj, sort_keys=False), nl=False)
    for problem in problems:
        click.echo(f"headgate load: {problem}", err=True)
    if not problems:
        click.echo(f"would create {_amounts(shape.counts)}; nothing was written", err=True)
    return 1 if problems else 0


async def _create(
    rest_config: RESTConfig, shape: LoadShape, command_line: str, options: tuple[int, float, float]
) -> int:
    async with connect_component(rest_config) as transport:
        planned = await _planned(transport, shape)
        began_s = time.monotonic()
        async with _runner(transport, shape.name, f"load {shape.name}", len(planned), options) as runner:
            result = await runner.create(planned)
    took_s = time.monotonic() - began_s
    return _report(result, len(planned), took_s, "created", command_line)


async def _delete(rest_config: RESTConfig, name: str, namespace: str | None, options: tuple[int, float, float]) -> int:
    async with connect_component(rest_config) as transport:
        found, problems = await find_load(transport, name, namespace)
        began_s = time.monotonic()
        async with _runner(transport, name, f"delete {name}", len(found), options) as runner:
            result = await runner.delete(found)
    for problem in problems:
        click.echo(f"headgate load: {problem}", err=True)
    code = _report(result, len(found), time.monotonic() - began_s, "deleted", f"headgate load {name} --delete")
    return code or (1 if problems else 0)


async def _show(rest_config: RESTConfig, name: str, namespace: str | None) -> int:
    async with connect_component(rest_config) as transport:
        found, problems = await find_load(transport, name, namespace)
    counts = {kind: sum(each.kind == kind for each in found) for kind in KINDS}
    click.echo(f"load {name}: {_amounts(counts)} ({LABEL}={name})")
    for problem in problems:
        click.echo(f"headgate load: {problem}", err=True)
    return 1 if problems else 0


@contextlib.asynccontextmanager
async def _runner(
    transport: Transport, name: str, label: str, total: int, options: tuple[int, float, float]
) -> AsyncIterator[LoadRunner]:
    """The first Ctrl-C lets requests end that are on their way; the second one ends the command."""
    concurrency, rate, retry_s = options
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    with ProgressBar(label, total) as progress:
        runner = LoadRunner(transport, name, concurrency=concurrency, rate=rate, retry_s=retry_s, progress=progress)

        def interrupt() -> None:
            runner.interrupt()
            if task is not None:
                loop.add_signal_handler(signal.SIGINT, task.cancel)

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            yield runner
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def _report(result: LoadResult, total: int, took_s: float, verb: str, command_line: str) -> int:
    """Prints what was done, and returns the exit code."""
    done = result.done.total() + result.existed.total()
    rate = f", {result.done.total() / took_s:.0f}/s" if took_s >= 0.1 and result.done else ""
    text = f"{verb} {_amounts(result.done)} in {took_s:.1f} s{rate}"
    if result.existed:
        text += f"; {_amounts(result.existed)} existed"
    click.echo(text)
    if result.problem:
        click.echo(f"headgate load: {result.problem}", err=True)
    if result.unknown:
        click.echo(f"headgate load: no response about {', '.join(result.unknown)}: they may exist", err=True)
    if result.is_interrupted and done < total:
        click.echo(f"headgate load: interrupted after {done} of {total}", err=True)
    if done < total and verb == "created":
        click.echo(f"The same command continues; `{command_line} --delete` removes what exists.", err=True)
    elif done < total:
        click.echo(f"`{command_line}` continues.", err=True)
    if result.is_interrupted and done < total:
        return _INTERRUPTED
    return 1 if result.problem or done < total else 0


def _amounts(counts: Any) -> str:
    """``20 queues, 1 pod``."""
    parts = [f"{counts[kind]} {kind}{'' if counts[kind] == 1 else 's'}" for kind in KINDS if counts.get(kind)]
    return ", ".join(parts) or "nothing"
