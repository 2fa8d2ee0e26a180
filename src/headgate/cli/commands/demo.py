"""``headgate demo``: scenarios that show what Headgate does, in clusters of their own. ``cli/demos/`` has the
scenarios.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from typing import Final

import click

from headgate.cli.demos import autoscaler as autoscaler_demo
from headgate.cli.demos import fast_release as release_demo
from headgate.cli.demos.autoscaler import DemoStep, conclusion
from headgate.cli.demos.demo_cluster import MachineCounts
from headgate.cli.demos.fast_release import ReleaseMeasurements, ReleaseScenario
from headgate.cli.demos.virtual_cluster import DemoRequestRefused
from headgate.cli.embedded.autoscalers import MAKERS
from headgate.cli.embedded.cluster_options import StartupError
from headgate.cli.options.log_options import log_options
from headgate.cli.options.progress import ProgressBar
from headgate.cli.options.suggestions import SuggestingChoice, SuggestingGroup
from headgate.cli.wiring.event_loop import loop_factory

_WIDTH = 32
_COLUMNS = ("added", "idle", "running", "waiting")


@click.group(cls=SuggestingGroup, short_help="Show in half a minute what gates change.")
@log_options
def command() -> None:
    """Demos of what Headgate does. Each runs in its own clusters and leaves nothing behind.

    \b
    Example:
      headgate demo autoscaler
    """


@command.command("autoscaler", short_help="The nodes that an autoscaler adds, with gates and without.")
@click.option(
    "--model",
    type=SuggestingChoice(sorted(MAKERS)),
    default="cluster-autoscaler",
    show_default=True,
    help="The autoscaler, as a model that follows its published rules.",
)
@log_options
def autoscaler(model: str) -> None:
    """Submit a driver and five executors of 1 CPU each to a queue of 2 CPU; an autoscaler adds nodes of 1 CPU.

    Two clusters in this process do it at the same time: in one the pods did not opt in to the queue gate, in the other
    they did. It takes about half a minute.

    \b
    Example:
      headgate demo autoscaler
      headgate demo autoscaler --model karpenter
    """
    click.echo(f"{'':<{_WIDTH}}  {'gates off':>31}  {'gates on':>31}")
    click.echo(f"{model + ' adds nodes':<{_WIDTH}}  {_cells(_COLUMNS)}  {_cells(_COLUMNS)}")
    try:
        with ProgressBar("demo", autoscaler_demo.STEPS, "steps", lines=False) as bar:
            bar(0)
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                rows = runner.run(autoscaler_demo.run_autoscaler_demo(model, _counting_steps(bar)))
    except StartupError as problem:
        click.echo(f"headgate demo: {problem}", err=True)
        sys.exit(1)
    click.echo("")
    click.echo(conclusion(rows))


def _counting_steps(bar: ProgressBar) -> Callable[[DemoStep], None]:
    done = itertools.count(1)

    def report(row: DemoStep) -> None:
        bar.clear()
        _print_step(row)
        bar(next(done))

    return report


def _print_step(row: DemoStep) -> None:
    click.echo(f"{row.step:<{_WIDTH}}  {_cells(_values(row.off))}  {_cells(_values(row.on))}")


def _values(counts: MachineCounts) -> tuple[str, ...]:
    return tuple(str(each) for each in (counts.added, counts.idle, counts.running, counts.waiting))


def _cells(cells: tuple[str, ...]) -> str:
    return " ".join(f"{each:>{max(len(name), 7)}}" for each, name in zip(cells, _COLUMNS, strict=True))


_FIGURES: Final[dict[str, Callable[[ReleaseMeasurements], str]]] = {
    "all admitted after": lambda each: f"{each.admitted_s:.0f} s",
    "all running after": lambda each: f"{each.running_s:.0f} s",
    "nodes added": lambda each: str(each.nodes_added),
    "most quota above node capacity": lambda each: f"{each.excess_cpus} CPU",
}


@command.command(
    "fast-release", short_help="Compare early and late release of quota by pods that take a minute to end."
)
@log_options
def fast_release() -> None:
    """Pods that take 60 seconds to terminate hold quota that pods of higher priority wait for (Kueue's KEP-6143).

    The scenario runs three times: with the feature gate PodIntegrationFastQuotaRelease off, with it on, and with it on
    and a scheduler that does not wait for terminating pods. A model of Cluster Autoscaler adds nodes. The clock is
    simulated; the controllers and the scheduler are the same as in headgate up. It takes about half a minute.

    \b
    Example:
      headgate demo fast-release
    """
    names = tuple(variant.name for variant in release_demo.VARIANTS)
    click.echo(f"{'':<{_WIDTH}}{''.join(f'{name:>26}' for name in names)}")
    try:
        with ProgressBar("demo", release_demo.RUNS, "runs") as bar:

            def report(scenario: ReleaseScenario, found: tuple[ReleaseMeasurements, ...]) -> None:
                bar.clear()
                _print_scenario(scenario, found)

            release_demo.run_release_demo(report, bar)
    except (StartupError, DemoRequestRefused) as problem:
        click.echo(f"headgate demo: {problem}", err=True)
        sys.exit(1)


def _print_scenario(scenario: ReleaseScenario, found: tuple[ReleaseMeasurements, ...]) -> None:
    click.echo(scenario.title)
    for name, text in _FIGURES.items():
        click.echo(f"  {name:<{_WIDTH - 2}}{''.join(f'{text(each):>26}' for each in found)}")
