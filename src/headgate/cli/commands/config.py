"""``headgate config``: validates configuration files, explains them, and prints the page about their fields."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click
import msgspec

from headgate.capacity.conf import PluginOption, SchedulerConf
from headgate.cli.configuration.docs import configuration_page
from headgate.cli.configuration.files import checked_own, kind_of, read_kueue, unknown_kind
from headgate.cli.configuration.kueue import KueueConfiguration
from headgate.cli.configuration.types import Configuration, values_of
from headgate.cli.options.config_text import ConfigProblem, decode_text
from headgate.cli.options.input_files import read_input
from headgate.cli.options.log_options import log_options
from headgate.cli.options.suggestions import SuggestingGroup
from headgate.cli.wiring.plugins import InstalledPlugins, find_plugins
from headgate.cli.wiring.scheduler import build_plugin
from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.kube.field_errors import FieldErrors, invalid
from headgate.scheduling.config.types import ExternalPluginArgs, KubeSchedulerConfiguration, KubeSchedulerProfile
from headgate.scheduling.framework import signature_checks


@click.group(cls=SuggestingGroup, short_help="Check a configuration file.")
@log_options
def command() -> None:
    """Work with configuration files: Headgate's Configuration (headgate.dev/v1alpha1), Kueue's Configuration
    (config.kueue.x-k8s.io), KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), and Volcano's
    volcano-scheduler.conf, alone or in its ConfigMap.

    \b
    Example:
      headgate config check headgate.yaml
    """


@command.command(short_help="Print docs/configuration.md: every field, its flag and its default.")
@log_options
def docs() -> None:
    """Print the page about the Configuration of headgate.dev/v1alpha1 as Markdown: every field, its flag and its
    default.

    \b
    Example:
      headgate config docs > configuration.md
    """
    run = importlib.import_module("headgate.cli.commands.run")
    click.echo(configuration_page(run.command), nl=False)


@command.command(short_help="Check a file, and print the plugins that it enables.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@log_options
def check(file: Path) -> None:
    """Read FILE (- is standard input) and say what is wrong with it, or what it sets.

    All errors are printed at once, one line each, with the path of the field, and with its line except in a
    KubeSchedulerConfiguration. A Configuration of Headgate must also be enough for `headgate run` without other
    options. The exit code is 0 if the file is valid and 1 if not. Lines that begin with "remark" are about settings
    that are allowed but have no effect. A file has one YAML document.

    For a Configuration of Headgate or Kueue it prints the fields that the file sets, by path. For a scheduler
    configuration it prints which plugins run at each point.

    \b
    A profile serves the pods with its schedulerName. Which plugins run at a point is decided by, nearest first:
      the point's own list         plugins: {score: {enabled: [{name: NodeAffinity, weight: 5}]}}
      the list for all points      plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}
      what runs by default         headgate config check with an empty profile shows it
    enabled beats disabled, and a "*" in disabled is everything that is not enabled in the same list.

    A volcano-scheduler.conf names no scheduler: it is for those of `headgate run --scheduler-name`.

    \b
    Example:
      headgate config check headgate.yaml
      headgate config check scheduler.yaml
      headgate config check volcano-scheduler.conf
      printf 'apiVersion: kubescheduler.config.k8s.io/v1\\nkind: KubeSchedulerConfiguration\\n' |
        headgate config check -
    """
    text = sys.stdin.buffer.read() if str(file) == "-" else read_input(file)
    if isinstance(text, str):
        click.echo(f"headgate config check: {text}", err=True)
        sys.exit(1)
    plugins = find_plugins()
    for problem in plugins.problems:
        click.echo(f"remark: {problem}", err=True)
    parsed = decode_text(text)
    if unknown := unknown_kind(parsed):
        click.echo(unknown.at(file))
        sys.exit(1)
    kind = kind_of(parsed)
    if kind != "scheduler":
        _check_fields(file, checked_own(text, file, plugins) if kind == "headgate" else read_kueue(text))
        return
    configuration = read_configuration(text, plugins.registry, ("headgate",))
    if isinstance(configuration, KubeSchedulerConfiguration):
        problems = [ConfigProblem(each) for each in _external_plugin_errors(configuration, plugins)]
        if not problems:
            _print_configuration(configuration)
            return
        configuration = problems
    for each in configuration:
        click.echo(each.at(file))
    sys.exit(1)


def _check_fields(file: Path, read: Configuration | KueueConfiguration | list[ConfigProblem]) -> None:
    """Prints the fields that a Configuration sets, or its errors."""
    if isinstance(read, list):
        for each in read:
            click.echo(each.at(file))
        sys.exit(1)
    if isinstance(read, KueueConfiguration):
        for remark in read.remarks:
            click.echo(f"remark: {remark}", err=True)
        read = read.configuration
    for path, value in values_of(read).items():
        click.echo(f"{path}: {msgspec.json.encode(value, order='deterministic').decode()}")


def _external_plugin_errors(configuration: KubeSchedulerConfiguration, plugins: InstalledPlugins) -> FieldErrors:
    """Errors of plugins of other packages: their constructors check the arguments, and this function their methods."""
    errors: FieldErrors = []
    for i, profile in enumerate(configuration.profiles):
        for name, args in profile.args.items():
            if not isinstance(args, ExternalPluginArgs):
                continue
            try:
                plugin = build_plugin(plugins.builders[name], args.given)
            except ValueError as error:
                at = f"profiles[{i}].pluginConfig[{name}].args" if profile.queues is None else f"{name}.arguments"
                errors.append(invalid(at, dict(args.given), str(error)))
                continue
            at = f"profiles[{i}].plugins[{name}]" if profile.queues is None else name
            errors += [
                invalid(at, plugins.registry[name].origin, each) for each in signature_checks.problems(plugin, name)
            ]
    return errors


def _print_configuration(configuration: KubeSchedulerConfiguration) -> None:
    for remark in configuration.remarks:
        click.echo(f"remark: {remark}", err=True)
    for i, profile in enumerate(configuration.profiles):
        click.echo(("\n" if i else "") + f"profile {profile.name}" + ("" if profile.queues is None else " of queues"))
        for line in (*_queue_lines(profile.queues), *profile_lines(profile)):
            click.echo(f"  {line}")


def _queue_lines(settings: SchedulerConf | None) -> list[str]:
    if settings is None:
        return []
    external = {each.name for each in settings.external_plugins}  # they order the units of a queue, not the queues
    orders = {point: settings.order(point) for point in ("queueOrder", "jobOrder", "taskOrder")}
    orders["queueOrder"] = tuple(name for name in orders["queueOrder"] if name not in external)
    shown = {
        "actions": ", ".join(settings.actions),
        **{f"tier {i}": " ".join(map(_plugin_text, tier)) for i, tier in enumerate(settings.tiers, 1)},
        **{point: " ".join(order) for point, order in orders.items()},
    }
    return [f"{name:<11} {value or '-'}" for name, value in shown.items()]


def _plugin_text(plugin: PluginOption) -> str:
    return plugin.name + (f"(without {', '.join(sorted(plugin.off))})" if plugin.off else "")


def profile_lines(profile: KubeSchedulerProfile) -> list[str]:
    """The plugins by extension point. In a profile of queues, ``queueOrder`` is Volcano's order of queues; the
    extension point of plugins of other packages that has the same name orders the units of a queue."""
    shown = {
        "queueOrder of units" if profile.queues is not None and point == "queueOrder" else point: " ".join(
            f"{name}({weight})" if point == "score" else name for name, weight in enabled
        )
        for point, enabled in profile.points.items()
    }
    width = max(11, *map(len, shown))
    return [f"{point:<{width}} {plugins or '-'}" for point, plugins in shown.items()]
