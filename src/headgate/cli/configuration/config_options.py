"""The options ``--config`` and ``--kueue-config``: files that give the other options of the command their defaults.

They are read before the other options. The order of precedence is: the command line, Headgate's ``Configuration``,
Kueue's ``Configuration``, the default of the option. ``reload.py`` reads the files again while the command runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from headgate.cli.configuration.files import SchedulerSource, kind_of, read_kueue, read_own, unknown_kind
from headgate.cli.configuration.flags import option_defaults
from headgate.cli.configuration.kueue import KueueConfiguration
from headgate.cli.configuration.types import Configuration
from headgate.cli.options.config_text import ConfigProblem, decode_text
from headgate.cli.options.input_files import read_input
from headgate.cli.wiring.plugins import find_plugins

F = TypeVar("F", bound=Callable[..., Any])

_META: Final = "headgate.configuration"


class OwnFile(msgspec.Struct, frozen=True):
    """Headgate's ``Configuration``, and the file that it is from."""

    file: Path
    configuration: Configuration


class ConfigFiles(msgspec.Struct, frozen=True):
    """The contents of the files. ``scheduler``: the scheduler configuration that ``--config`` names; if it names none,
    the one that Headgate's ``Configuration`` names or contains."""

    scheduler: SchedulerSource | None = None
    own: OwnFile | None = None
    kueue: KueueConfiguration | None = None


def config_options(command: F) -> F:
    """Adds the parameter ``config``, a :class:`ConfigFiles`, to a command."""

    @functools.wraps(command)
    def wrapper(**rest: Any) -> Any:
        return command(config=files_of(click.get_current_context()), **rest)

    result: Any = click.option(
        "--kueue-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_read_kueue_option,
        help="Kueue's own Configuration (config.kueue.x-k8s.io v1beta1 or v1beta2). --config overrides it.",
    )(wrapper)
    wrapped: F = click.option(
        "--config",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_read_config_option,
        help="A Configuration with a field for each option of this command, a KubeSchedulerConfiguration, or a "
        "volcano-scheduler.conf. May be given once for each of these kinds. `headgate config check FILE` explains it.",
    )(result)
    return wrapped


def _read_config_option(context: click.Context, parameter: click.Parameter, files: tuple[Path, ...]) -> None:
    seen: dict[str, Path] = {}
    for file in files:
        text = _text_of(context, file)
        parsed = decode_text(text)
        if problem := unknown_kind(parsed):
            _exit_with_problems(context, file, [problem])
        kind = kind_of(parsed)
        if kind in seen:
            raise click.BadParameter(f"{file} and {seen[kind]} are of the same kind; pass one of them")
        seen[kind] = file
        if kind == "headgate":
            own = read_own(text, file, find_plugins())
            if isinstance(own, list):
                _exit_with_problems(context, file, own)
            _remember(context, own=OwnFile(file, own))
        elif kind == "kueue":
            _use_kueue_file(context, file, text)
        else:
            _remember(context, scheduler=SchedulerSource(file))


def _read_kueue_option(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    if file is not None:
        _use_kueue_file(context, file, _text_of(context, file))


def _use_kueue_file(context: click.Context, file: Path, text: bytes) -> None:
    if files_of(context).kueue is not None:
        raise click.UsageError("Kueue's Configuration is given twice; pass it once, with --kueue-config")
    read = read_kueue(text)
    if isinstance(read, list):
        _exit_with_problems(context, file, read)
    for remark in read.remarks:
        click.echo(f"remark: {file}: {remark}", err=True)
    _remember(context, kueue=read)


def _text_of(context: click.Context, file: Path) -> bytes:
    text = read_input(file)
    if isinstance(text, str):
        click.echo(f"headgate {context.info_name}: {text}", err=True)
        sys.exit(1)
    return text


def _exit_with_problems(context: click.Context, file: Path, problems: list[ConfigProblem]) -> NoReturn:
    for each in problems:
        click.echo(f"headgate {context.info_name}: {each.at(file)}", err=True)
    sys.exit(1)


def _remember(context: click.Context, **changes: Any) -> None:
    """Adds a file, and computes the defaults of the options again from all files: the order of precedence is not the
    order in which the files are read."""
    files = msgspec.structs.replace(files_of(context), **changes)
    context.meta[_META] = files
    defaults: dict[str, Any] = {}
    if files.kueue is not None:
        defaults |= option_defaults(files.kueue.configuration, Path())
    if files.own is not None:
        defaults |= option_defaults(files.own.configuration, files.own.file.parent)
    context.default_map = _by_parameter(context.command, defaults)


def _by_parameter(command: click.Command, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults by the name of the parameter, which is what click looks up."""
    names = {flag: each.name for each in command.params for flag in each.opts}
    return {str(names[flag]): value for flag, value in defaults.items()}


def files_of(context: click.Context) -> ConfigFiles:
    files: ConfigFiles = context.meta.get(_META, ConfigFiles())
    if files.scheduler is None and files.own is not None:
        section, folder = files.own.configuration.scheduler, files.own.file.parent
        if section.configuration is not None:
            return msgspec.structs.replace(files, scheduler=SchedulerSource(files.own.file, section.configuration))
        if section.configuration_file is not None:
            return msgspec.structs.replace(files, scheduler=SchedulerSource(folder / section.configuration_file))
    return files
