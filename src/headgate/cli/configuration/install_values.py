"""Reads a values file for ``headgate install``, and checks what the pods would refuse later: the fields of
``configuration`` and the arguments of ``extraArgs``.

The other values are those of ``install/options.py``. Files that the values name exist only in the pods, so they are not
read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from headgate.cli.configuration import decoder
from headgate.cli.configuration.files import read_bytes
from headgate.cli.configuration.types import API_VERSION, KIND, Configuration
from headgate.cli.options.config_text import ConfigProblem, decode_text, text_problems
from headgate.cli.wiring.plugins import find_plugins
from headgate.install.options import InstallOptions, read_values
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.serializer.yaml_lines import field_lines

_ARGUMENTS: Final = "extraArgs"
_CONFIGURATION: Final = "configuration"
_SERVICE: Final = "API servers reach the webhooks of an installation through its Service; remove it"
_PROBES: Final = "the probes of the pods depend on it; set metrics.secure of the values in place of it"
REFUSED_ARGUMENTS: Final = {
    "--components": "the rights of the pods depend on it; set components in place of it",
    "--metrics-listen": "the probes and the Service use the port that the installation sets; remove it",
    "--metrics-secure": _PROBES,
    "--webhook-url": _SERVICE,
    "--webhook-service": _SERVICE,
    "--webhook-secret": "the pods have rights for the Secret of the installation only; remove it",
    "--webhook-listen": "the Service uses the port that the installation sets; remove it",
    "--log-level": "set logLevel in place of it",
    "--log-format": "set logFormat in place of it",
    "--help": "the pods would print it and end; remove it",
}
"""Arguments that the installation sets itself, and arguments with which the pods would not work."""
REFUSED_FIELDS: Final[Mapping[str, Callable[[Configuration], str]]] = {
    "webhooks.url": lambda read: _SERVICE if read.webhooks.url else "",
    "metrics.secure": lambda read: _PROBES if read.metrics.secure else "",
}
"""Fields of ``configuration`` with which the pods would not work: why a value is refused; empty if it is not."""


def read_values_file(file: Path, run: click.Command) -> InstallOptions | list[str]:
    """The options, or all errors of the file, one text for each. ``run``: the command ``headgate run``."""
    text = read_bytes(file)
    if isinstance(text, str):
        return [text]
    parsed = decode_text(text)
    problems = text_problems(text, parsed)
    if parsed.error is not None:
        return [each.at(file) for each in problems]
    options = read_values(parsed.value)
    errors = options if isinstance(options, list) else _later_errors(options, run)
    lines = field_lines(text)
    problems += [ConfigProblem(each, lines.line_of(each.path)) for each in errors]
    if isinstance(options, list) or problems:
        return [each.at(file) for each in sorted(problems, key=lambda each: each.line or 0)]
    return options


def _later_errors(options: InstallOptions, run: click.Command) -> FieldErrors:
    return [*_configuration_errors(options.configuration), *_argument_errors(options.extra_args, run)]


def _configuration_errors(given: dict[str, Any]) -> FieldErrors:
    read = decoder.parse({"apiVersion": API_VERSION, "kind": KIND, **given}, find_plugins().registry)
    if isinstance(read, list):
        return [msgspec.structs.replace(each, path=f"{_CONFIGURATION}.{each.path}") for each in read]
    found = {path: problem(read) for path, problem in REFUSED_FIELDS.items()}
    return [forbidden(f"{_CONFIGURATION}.{path}", problem) for path, problem in found.items() if problem]


def _argument_errors(arguments: Sequence[str], run: click.Command) -> FieldErrors:
    """Options that ``headgate run`` does not know, and values that it refuses. Files are not read."""
    context = click.Context(run, info_name="run")
    try:
        given, rest, _ = run.make_parser(context).parse_args(list(arguments))
    except click.UsageError as error:
        name = getattr(error, "option_name", "") or ""
        return [invalid(_place(arguments, [name]), _shown(arguments, [name]), error.format_message())]
    errors = [invalid(_place(arguments, [each]), each, "an option begins with --") for each in rest]
    for parameter in run.get_params(context):
        if parameter.name not in given:
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        place, shown = _place(arguments, names), _shown(arguments, names)
        refused = [REFUSED_ARGUMENTS[each] for each in parameter.opts if each in REFUSED_ARGUMENTS]
        if refused:
            errors.append(forbidden(place, f"{shown}: {refused[0]}"))
        else:
            errors += [invalid(place, shown, each) for each in _value_problems(parameter, given, context)]
    return errors


def _value_problems(parameter: click.Parameter, given: dict[str, Any], context: click.Context) -> Iterator[str]:
    if isinstance(parameter.type, click.Path):
        return
    # The callbacks of options that the command does not get have effects of their own, such as on the log.
    read = parameter.process_value if parameter.expose_value else parameter.type_cast_value
    try:
        read(context, given[str(parameter.name)])
    except click.BadParameter as error:
        yield error.message


def _place(arguments: Sequence[str], names: Sequence[str]) -> str:
    """The path of the argument that begins with one of the names."""
    for index, argument in enumerate(arguments):
        if argument.partition("=")[0] in names:
            return f"{_ARGUMENTS}[{index}]"
    return _ARGUMENTS


def _shown(arguments: Sequence[str], names: Sequence[str]) -> str:
    return next((each for each in arguments if each.partition("=")[0] in names), " ".join(arguments))
