"""Reads a values file for ``headgate install``, and checks what the pods would refuse later: the fields of
``configuration`` and the arguments of ``extraArgs``.

The other values are those of ``install/options.py``. Files that the values name exist only in the pods, so they are not
read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from headgate.cli.configuration import decoder
from headgate.cli.configuration.flags import FLAGS
from headgate.cli.configuration.run_checks import run_problems
from headgate.cli.configuration.types import API_VERSION, KIND, Configuration
from headgate.cli.options.config_text import ConfigProblem, decode_text, text_problems
from headgate.cli.options.input_files import read_input
from headgate.cli.wiring.plugins import find_plugins
from headgate.install.options import FEATURE_GATES, GRACE_S, NAMESPACE, InstallOptions, read_values
from headgate.kube.feature_gates import gate_values, parse_feature_gates, with_gates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.serializer.yaml_lines import field_lines
from headgate.kube.timestamps import parse_duration

_ARGUMENTS: Final = "extraArgs"
_CONFIGURATION: Final = "configuration"
_MAX_SHUTDOWN_DELAY_S: Final = GRACE_S - 5
"""After it, connections are closed and Leases released."""
_SHUTDOWN_DELAY: Final = "--shutdown-delay"
_EMPTY: Final = "the value is empty; write one, or remove the option"
_NAMES: Final = ("--scheduler-name", "--gated-scheduler-name")
_TOO_LATE: Final = f"must be at most {_MAX_SHUTDOWN_DELAY_S}s: the pods are killed {GRACE_S} s after SIGTERM"
_ACCOUNT: Final = "the pods use their ServiceAccount, which has the rights; remove it"
_END_OF_OPTIONS: Final = "--"
_ELECTION: Final = "during an update two pods run at the same time, and one of them must lead; remove it"
_SERVICE: Final = "API servers reach the webhooks of an installation through its Service; remove it"
CERTIFICATE_WITHOUT_TLS: Final = (
    "metrics are not served over TLS; set metrics.secure of the values to true, or remove it"
)
_PROBES: Final = "the probes of the pods depend on it; set metrics.secure of the values in place of it"
_SHADOW: Final = "shadow mode writes nothing, and an installation works; run it as a command, with its own rights"
REFUSED_ARGUMENTS: Final = {
    "--components": "the rights of the pods depend on it; set components in place of it",
    "--metrics-listen": "the probes and the Service use the port that the installation sets; remove it",
    "--metrics-secure": _PROBES,
    "--no-metrics-secure": _PROBES,
    "--webhook-url": _SERVICE,
    "--webhook-service": _SERVICE,
    "--webhook-secret": "the pods have rights for the Secret of the installation only; remove it",
    "--webhook-listen": "the Service uses the port that the installation sets; remove it",
    "--shadow": _SHADOW,
    "--shadow-patience": _SHADOW,
    "--for": _SHADOW,
    "--log-level": "set logLevel in place of it",
    "--log-format": "set logFormat in place of it",
    "--kubeconfig": _ACCOUNT,
    "--context": _ACCOUNT,
    "--no-leader-elect": _ELECTION,
    "--dry-run": "the pods would write nothing; remove it",
    "--help": "the pods would print it and end; remove it",
}
"""Arguments that the installation sets itself, and arguments with which the pods would not work."""
REFUSED_FIELDS: Final[Mapping[str, str]] = {
    **{each.path: REFUSED_ARGUMENTS[each.flag] for each in FLAGS if each.flag in REFUSED_ARGUMENTS},
    "leaderElection.leaderElect": _ELECTION,
    "scheduler.configuration.clientConnection.kubeconfig": _ACCOUNT,
    "scheduler.configuration.leaderElection.leaderElect": _ELECTION,
}
"""Fields of ``configuration`` that set the same as these arguments, or would in a scheduler configuration: why a value
is refused."""
ALLOWED_VALUES: Final[Mapping[str, bool | str]] = {
    "dryRun": False,
    "clientConnection.kubeconfig": "",
    "clientConnection.context": "",
    "metrics.secure": False,
    "leaderElection.leaderElect": True,
    "scheduler.configuration.clientConnection.kubeconfig": "",
    "scheduler.configuration.leaderElection.leaderElect": True,
}
"""The value of such a field that has no effect in the pods."""


def read_values_file(file: Path, run: click.Command) -> InstallOptions | list[str]:
    """The options, or all errors of the file, one text for each. ``run``: the command ``headgate run``."""
    text = read_input(file)
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
    return [*_configuration_errors(options), *_argument_errors(options.extra_args, run)]


def _configuration_errors(options: InstallOptions) -> FieldErrors:
    given = options.configuration
    read = decoder.parse({"apiVersion": API_VERSION, "kind": KIND, **given}, find_plugins().registry)
    if isinstance(read, list):
        return [msgspec.structs.replace(each, path=f"{_CONFIGURATION}.{each.path}") for each in read]
    errors = [
        forbidden(f"{_CONFIGURATION}.{path}", problem)
        for path, problem in REFUSED_FIELDS.items()
        if find_value(given, path) not in (None, ALLOWED_VALUES.get(path))
    ]
    delay = read.webhooks.shutdown_delay
    if delay is not None and (problem := _delay_problem(delay)):
        errors.append(invalid(f"{_CONFIGURATION}.webhooks.shutdownDelay", delay, problem))
    if read.metrics.cert_file and not options.metrics.secure:
        errors.append(forbidden(f"{_CONFIGURATION}.metrics.certFile", CERTIFICATE_WITHOUT_TLS))
    return errors


def problem_in_pods(options: InstallOptions, run: click.Command) -> str:
    """Why ``headgate run`` would refuse the configuration, with the arguments of the pods; empty if it would not. The
    options come from a values file that has no errors, and from the command line."""
    given = _given_by_flag(options.extra_args, run)
    if "--kueue-config" in given:  # a file of the pods
        return ""
    read = decoder.parse({"apiVersion": API_VERSION, "kind": KIND, **options.configuration}, find_plugins().registry)
    assert isinstance(read, Configuration), read
    in_pods = msgspec.structs.replace(
        _with_arguments(read, given),
        components=options.components.names(),
        webhooks=msgspec.structs.replace(read.webhooks, service=f"{NAMESPACE}/headgate"),
    )
    metrics = msgspec.structs.replace(in_pods.metrics, secure=options.metrics.secure)
    errors = run_problems(msgspec.structs.replace(in_pods, metrics=metrics))
    if not errors:
        return ""
    flag = next((each.flag for each in FLAGS if each.path == errors[0].path and each.flag in given), "")
    return f"{_ARGUMENTS}: {flag}: {errors[0].detail}" if flag else f"{_CONFIGURATION}.{errors[0]}"


def _given_by_flag(arguments: Sequence[str], run: click.Command) -> Mapping[str, Any]:
    """The values of the options, as they are written."""
    context = click.Context(run, info_name="run")
    given, _, _ = run.make_parser(context).parse_args(list(arguments))
    return {each.opts[0]: given[each.name] for each in run.get_params(context) if each.name in given}


def _with_arguments(read: Configuration, given: Mapping[str, Any]) -> Configuration:
    """The configuration with the options that the rules of :func:`run_problems` read: they override its fields."""
    scheduler, queues, metrics, gates = read.scheduler, read.queues, read.metrics, read.feature_gates
    if "--scheduler-name" in given:
        scheduler = msgspec.structs.replace(scheduler, names=tuple(given["--scheduler-name"]))
    if "--config" in given:
        scheduler = msgspec.structs.replace(scheduler, configuration_file=given["--config"])
    if "--gated-scheduler-name" in given:
        queues = msgspec.structs.replace(queues, gated_scheduler_names=tuple(given["--gated-scheduler-name"]))
    if "--metrics-cert" in given:
        metrics = msgspec.structs.replace(metrics, cert_file=given["--metrics-cert"])
    if "--metrics-key" in given:
        metrics = msgspec.structs.replace(metrics, key_file=given["--metrics-key"])
    base = with_gates(gates or {})
    features = base if isinstance(base, str) else parse_feature_gates(given.get(FEATURE_GATES, ""), base)
    if not isinstance(features, str):
        gates = gate_values(features)
    return msgspec.structs.replace(read, scheduler=scheduler, queues=queues, metrics=metrics, feature_gates=gates)


def find_value(given: Mapping[str, Any], path: str) -> Any:
    """The value at the path; None if there is none."""
    found: Any = given
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _delay_problem(text: str) -> str:
    nanos = parse_duration(text)
    return _TOO_LATE if isinstance(nanos, int) and nanos > _MAX_SHUTDOWN_DELAY_S * 10**9 else ""


def _argument_errors(arguments: Sequence[str], run: click.Command) -> FieldErrors:
    """Options that ``headgate run`` does not know, and values that it refuses. Files are not read."""
    context = click.Context(run, info_name="run")
    try:
        given, rest, _ = run.make_parser(context).parse_args(list(arguments))
    except click.UsageError as error:
        name = getattr(error, "option_name", "") or ""
        return [invalid(_place(arguments, [name]), _shown(arguments, [name]), error.format_message())]
    errors = [invalid(_place(arguments, [each]), each, "an option begins with --") for each in rest]
    if _END_OF_OPTIONS in arguments:
        errors.append(
            invalid(_place(arguments, [_END_OF_OPTIONS]), _END_OF_OPTIONS, "`headgate run` takes no arguments")
        )
    for parameter in run.get_params(context):
        if parameter.name not in given:
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        refused = _refused_name(arguments, parameter)
        if refused:
            errors.append(
                forbidden(_place(arguments, [refused]), f"{_shown(arguments, [refused])}: {REFUSED_ARGUMENTS[refused]}")
            )
        else:
            place, shown = _place(arguments, names), _shown(arguments, names)
            errors += [invalid(place, shown, each) for each in _value_problems(parameter, given, context)]
            if _SHUTDOWN_DELAY in names and (problem := _delay_problem(str(given[str(parameter.name)]))):
                errors.append(invalid(place, shown, problem))
    return errors


def _refused_name(arguments: Sequence[str], parameter: click.Parameter) -> str:
    """The first name of the option that is given and refused; of a switch, only one of its names may be."""
    words = [each.partition("=")[0] for each in arguments]
    names = (*parameter.opts, *parameter.secondary_opts)
    return next((each for each in names if each in REFUSED_ARGUMENTS and each in words), "")


def _value_problems(parameter: click.Parameter, given: dict[str, Any], context: click.Context) -> Iterator[str]:
    value = given[str(parameter.name)]
    is_file = isinstance(parameter.type, click.Path)
    if (is_file or parameter.opts[0] in _NAMES) and "" in (value if isinstance(value, list | tuple) else [value]):
        yield _EMPTY
        return
    if is_file:
        return
    # The callbacks of options that the command does not get have effects of their own, such as on the log.
    read = parameter.process_value if parameter.expose_value else parameter.type_cast_value
    try:
        read(context, value)
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
