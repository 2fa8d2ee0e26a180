"""The text of a scheduler configuration: detects its kind and calls ``scheduling/config/``.

Two kinds are detected by their content: a ``KubeSchedulerConfiguration``, and a ``volcano-scheduler.conf``, which may
also be in the ConfigMap of Volcano. Such a conf names no scheduler: the caller provides the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate.kube.field_errors import FieldError, FieldErrorType, forbidden, invalid
from headgate.kube.serializer.json_decoder import ParsedBody
from headgate.kube.serializer.yaml_decoder import decode_yaml
from headgate.kube.serializer.yaml_lines import FieldLines, field_lines
from headgate.scheduling.config.plugin_registry import Registry
from headgate.scheduling.config.queue_profile import queue_profile
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.config.volcano_conf import DISTINGUISHING, VolcanoConfiguration, parse_volcano_conf
from headgate.scheduling.framework.node_sampling import ALL

_CONF_SUFFIX: Final = ".conf"
_LINE_PREFIX: Final = "line "


class ConfigProblem(msgspec.Struct, frozen=True):
    """An error, and its line if that is known."""

    error: FieldError
    line: int | None = None

    def at(self, file: object) -> str:
        return f"{file}: {self.error}" if self.line is None else f"{file}:{self.line}: {self.error}"


def read_configuration(
    text: bytes, registry: Registry, names: Sequence[str] = ()
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    """``names``: the schedulers of a file that names none. A duplicate field is an error, because one of the two would
    be ignored."""
    parsed = decode_yaml(text)
    if parsed.error is not None:
        return [ConfigProblem(_parse_error(parsed.error))]
    if _is_conf(parsed.value):
        return _read_volcano_conf(parsed, field_lines(text), names)
    if _is_config_map(parsed.value):
        return _read_config_map(parsed, field_lines(text), names)
    read = parse_configuration(parsed.value, registry)
    duplicates = [ConfigProblem(_duplicate_field(each)) for each in parsed.duplicates]
    if isinstance(read, KubeSchedulerConfiguration):
        return duplicates or read
    return [*duplicates, *(ConfigProblem(each) for each in read)]


def _is_conf(value: Any) -> bool:
    return isinstance(value, dict) and "kind" not in value and not DISTINGUISHING.isdisjoint(value)


def _is_config_map(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == "ConfigMap"


def _read_volcano_conf(
    parsed: ParsedBody, lines: FieldLines, names: Sequence[str]
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    read = parse_volcano_conf(parsed.value)
    problems = [ConfigProblem(error, _line_of(error)) for error in map(_duplicate_field, parsed.duplicates)]
    if not isinstance(read, VolcanoConfiguration):
        problems += [ConfigProblem(each, lines.line_of(each.path)) for each in read]
        return sorted(problems, key=lambda each: each.line or 0)
    profiles = tuple(queue_profile(name, read.conf) for name in names)
    return problems or KubeSchedulerConfiguration(profiles, percentage_of_nodes_to_score=ALL, remarks=read.remarks)


def _read_config_map(
    parsed: ParsedBody, lines: FieldLines, names: Sequence[str]
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    data = parsed.value.get("data")
    found = sorted(key for key in data if key.endswith(_CONF_SUFFIX)) if isinstance(data, dict) else []
    text = data[found[0]] if len(found) == 1 else None
    if not isinstance(text, str):
        detail = f"must have exactly one text whose name ends in {_CONF_SUFFIX}, such as volcano-scheduler.conf"
        return [ConfigProblem(invalid("data", found, detail), lines.line_of("data"))]
    path = f"data.{found[0]}"
    inner = decode_yaml(text.encode())
    if inner.error is not None:
        return [ConfigProblem(msgspec.structs.replace(_parse_error(inner.error), path=path), lines.line_of(path))]
    read = _read_volcano_conf(inner, field_lines(text.encode()), names)
    if isinstance(read, KubeSchedulerConfiguration):
        return read
    first_line = lines.literals.get(path)
    return [_nested_problem(each, path, first_line, lines.line_of(path)) for each in read]


def _nested_problem(problem: ConfigProblem, path: str, first_line: int | None, line: int) -> ConfigProblem:
    """A problem in the nested text, with its own line if the text is a literal block."""
    if problem.line is not None and first_line is not None:
        return ConfigProblem(problem.error, first_line - 1 + problem.line)
    return ConfigProblem(msgspec.structs.replace(problem.error, path=f"{path}: {problem.error.path}"), line)


def _parse_error(error: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, "", detail=f"this is neither YAML nor JSON: {error}")


def _duplicate_field(message: str) -> FieldError:
    """The message names the field for JSON (``duplicate field "a.b"``), and the line for YAML (``line 3: key "b"
    …``)."""
    if message.startswith(_LINE_PREFIX):
        line, _, detail = message.partition(": ")
        return forbidden(line, detail)
    return forbidden(message.removeprefix("duplicate field ").strip('"'), "duplicate field")


def _line_of(error: FieldError) -> int | None:
    line = error.path.removeprefix(_LINE_PREFIX)
    return int(line) if line != error.path and line.isdecimal() else None
