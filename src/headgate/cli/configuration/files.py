"""Reads configuration files: recognises the kind, decodes it, and adds the line of each error.

The kinds are Headgate's ``Configuration``, Kueue's ``Configuration``, and a scheduler configuration
(``cli/wiring/scheduler_config.py``). ``config_options.py`` has the options that name files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from headgate.cli.configuration import decoder, kueue
from headgate.cli.configuration.kueue import KueueConfiguration
from headgate.cli.configuration.run_checks import run_problems
from headgate.cli.configuration.types import API_VERSION, KIND, Configuration, Object
from headgate.cli.options.config_text import ConfigProblem, decode_text, text_problems
from headgate.cli.options.input_files import read_input
from headgate.cli.options.job_options import read_kinds
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler_config import (
    SCHEDULER_KIND,
    is_scheduler_configuration,
    read_configuration,
    read_object,
)
from headgate.kube.field_errors import FieldErrors, invalid, required
from headgate.kube.serializer.json_decoder import ParsedBody
from headgate.kube.serializer.strict_decoding import similar
from headgate.kube.serializer.yaml_lines import field_lines
from headgate.scheduling.config.types import KubeSchedulerConfiguration

FileKind = Literal["headgate", "kueue", "scheduler"]
_OWN_GROUP: Final = API_VERSION.partition("/")[0]


def kind_of(parsed: ParsedBody) -> FileKind:
    """What the file contains; a file of no known kind is read as a scheduler configuration."""
    group = ""
    if isinstance(parsed.value, dict) and isinstance(parsed.value.get("apiVersion"), str):
        group = parsed.value["apiVersion"].partition("/")[0]
    return "headgate" if group == _OWN_GROUP else "kueue" if group == kueue.GROUP else "scheduler"


def unknown_kind(parsed: ParsedBody) -> ConfigProblem | None:
    """The error of a file that is of no kind that a command reads; None if it is of one, or cannot be parsed."""
    value = parsed.value
    if parsed.error is not None or kind_of(parsed) != "scheduler" or is_scheduler_configuration(value):
        return None
    if not isinstance(value, dict):
        problem = "the file is empty" if value is None else "the file does not contain an object"
        return ConfigProblem(required("", f"{problem}; {_KNOWN_TEXT}"))
    given = " ".join(str(value[key]) for key in ("apiVersion", "kind") if value.get(key))
    close = similar(given, dict.fromkeys(_KNOWN)) if given else ""
    hint = f"; is it {close}?" if close else ""
    if not value.get("apiVersion"):
        return ConfigProblem(required("apiVersion", f"{_KNOWN_TEXT}{hint}"))
    return ConfigProblem(invalid("apiVersion", given, f"this kind is not read here; {_KNOWN_TEXT}{hint}"))


_KNOWN: Final = (
    f"{API_VERSION} {KIND}",
    *(f"{each} {kueue.KIND}" for each in reversed(kueue.VERSIONS)),
    SCHEDULER_KIND,
)
_KNOWN_TEXT: Final = (
    f"the known kinds are {', '.join(_KNOWN)}, and volcano-scheduler.conf (with actions or tiers), alone or in its "
    "ConfigMap"
)


class SchedulerSource(msgspec.Struct, frozen=True):
    """Where the scheduler configuration is: a file, or an object in the configuration file ``file``."""

    file: Path
    value: Object | None = None

    def read(self, plugins: InstalledPlugins, names: tuple[str, ...]) -> KubeSchedulerConfiguration | list[str]:
        """The configuration, or its errors. ``names``: the scheduler names of a configuration that has none."""
        if self.value is not None:
            read = read_object(self.value, plugins.registry, names)
            return [f"{self.file}: {each}" for each in read] if isinstance(read, list) else read
        text = read_input(self.file)
        if isinstance(text, str):
            return [text]
        parsed = read_configuration(text, plugins.registry, names)
        return [each.at(self.file) for each in parsed] if isinstance(parsed, list) else parsed


def read_own(text: bytes, file: Path, plugins: InstalledPlugins) -> Configuration | list[ConfigProblem]:
    """Headgate's ``Configuration``. Files that it names are read, too; ``file`` says where relative paths begin."""
    parsed = decode_text(text)
    if parsed.error is not None:
        return text_problems(text, parsed)
    read = decoder.parse(parsed.value, plugins.registry)
    errors = read if isinstance(read, list) else _validate_files(read, file.parent, plugins)
    return _problems(parsed, text, errors) or _unless_errors(read)


def checked_own(text: bytes, file: Path, plugins: InstalledPlugins) -> Configuration | list[ConfigProblem]:
    """The same, with the errors of a file that is not enough for ``headgate run`` without other options."""
    read = read_own(text, file, plugins)
    if isinstance(read, list):
        return read
    errors = run_problems(read)
    for path, named in (
        ("clientConnection.kubeconfig", read.client_connection.kubeconfig),
        ("metrics.certFile", read.metrics.cert_file),
        ("metrics.keyFile", read.metrics.key_file),
    ):
        if named and isinstance(problem := read_input(file.parent / named), str):
            errors.append(invalid(path, named, problem))
    return _problems(decode_text(text), text, errors) or read


def read_kueue(text: bytes) -> KueueConfiguration | list[ConfigProblem]:
    parsed = decode_text(text)
    if parsed.error is not None:
        return text_problems(text, parsed)
    read = kueue.parse(parsed.value)
    return _problems(parsed, text, read if isinstance(read, list) else []) or _unless_errors(read)


def _unless_errors(read: Any) -> Any:
    assert not isinstance(read, list), read
    return read


def _problems(parsed: ParsedBody, text: bytes, errors: FieldErrors) -> list[ConfigProblem]:
    lines = field_lines(text)
    problems = text_problems(text, parsed)
    problems += [ConfigProblem(each, lines.line_of(each.path)) for each in errors]
    return sorted(problems, key=lambda each: each.line or 0)


def referenced_files(configuration: Configuration, folder: Path) -> dict[str, Path]:
    """The files that the configuration names, by the path of the field."""
    named = {
        "scheduler.configurationFile": configuration.scheduler.configuration_file,
        "jobs.kindsFile": configuration.jobs.kinds_file,
    }
    return {path: folder / file for path, file in named.items() if file}


def _validate_files(configuration: Configuration, folder: Path, plugins: InstalledPlugins) -> FieldErrors:
    """Errors of the files that the configuration names, at the field that names the file."""
    errors: FieldErrors = []
    for path, file in referenced_files(configuration, folder).items():
        text = read_input(file)
        if isinstance(text, str):
            problems = [text]
        elif path == "jobs.kindsFile":
            read = read_kinds(text)
            problems = [f"{file}: {each}" for each in read] if isinstance(read, list) else []
        else:
            source = SchedulerSource(file).read(plugins, ("headgate",))
            problems = source if isinstance(source, list) else []
        errors += [invalid(path, str(file), each) for each in problems]
    return errors
