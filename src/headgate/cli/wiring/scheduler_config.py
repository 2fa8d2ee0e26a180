"""Reads the text of a scheduler configuration: it detects the format and calls ``scheduling/config/``.

The formats are ``KubeSchedulerConfiguration`` and ``volcano-scheduler.conf``, the latter alone or in Volcano's
ConfigMap. A ``volcano-scheduler.conf`` has no scheduler names: the caller provides them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate.cli.options.config_text import ConfigProblem, decode_text, parse_error, text_problems
from headgate.kube.field_errors import FieldErrors, invalid
from headgate.kube.serializer.json_decoder import ParsedBody
from headgate.kube.serializer.yaml_lines import field_lines
from headgate.scheduling.config.plugin_registry import Registry
from headgate.scheduling.config.queue_profile import queue_profile
from headgate.scheduling.config.scheduler_configuration import API_VERSION, KIND, parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.config.volcano_conf import DISTINGUISHING, VolcanoConfiguration, parse_volcano_conf
from headgate.scheduling.framework.node_sampling import ALL

_CONF_SUFFIX: Final = ".conf"
SCHEDULER_KIND: Final = f"{API_VERSION} {KIND}"


def read_configuration(
    text: bytes, registry: Registry, names: Sequence[str] = ()
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    """``names``: the schedulers of a file that names none. A duplicate field is an error, because one of the two would
    be ignored."""
    parsed = decode_text(text)
    if parsed.error is not None:
        return text_problems(text, parsed)
    if _is_conf(parsed.value):
        return _read_volcano_conf(text, parsed, registry, names)
    if _is_config_map(parsed.value):
        return _read_config_map(text, parsed, registry, names)
    read = parse_configuration(parsed.value, registry)
    problems = text_problems(text, parsed)
    if isinstance(read, KubeSchedulerConfiguration):
        return problems or read
    return [*problems, *(ConfigProblem(each) for each in read)]


def read_object(value: Any, registry: Registry, names: Sequence[str] = ()) -> KubeSchedulerConfiguration | FieldErrors:
    """Reads a scheduler configuration that is an object in another file."""
    if not _is_conf(value):
        return parse_configuration(value, registry)
    read = parse_volcano_conf(value, registry)
    return _queue_profiles(read, names) if isinstance(read, VolcanoConfiguration) else read


def is_scheduler_configuration(value: Any) -> bool:
    """Whether the value is of one of the formats that :func:`read_configuration` reads, with or without errors."""
    if _is_conf(value) or _is_config_map(value):
        return True
    group = API_VERSION.partition("/")[0]
    return isinstance(value, dict) and (
        value.get("kind") == KIND or str(value.get("apiVersion")).partition("/")[0] == group
    )


def _queue_profiles(read: VolcanoConfiguration, names: Sequence[str]) -> KubeSchedulerConfiguration:
    profiles = tuple(queue_profile(name, read.conf) for name in names)
    return KubeSchedulerConfiguration(profiles, percentage_of_nodes_to_score=ALL, remarks=read.remarks)


def _is_conf(value: Any) -> bool:
    return isinstance(value, dict) and "kind" not in value and not DISTINGUISHING.isdisjoint(value)


def _is_config_map(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == "ConfigMap"


def _read_volcano_conf(
    text: bytes, parsed: ParsedBody, registry: Registry, names: Sequence[str]
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    lines = field_lines(text)
    read = parse_volcano_conf(parsed.value, registry)
    problems = text_problems(text, parsed)
    if not isinstance(read, VolcanoConfiguration):
        problems += [ConfigProblem(each, lines.line_of(each.path)) for each in read]
        return sorted(problems, key=lambda each: each.line or 0)
    return problems or _queue_profiles(read, names)


def _read_config_map(
    text: bytes, parsed: ParsedBody, registry: Registry, names: Sequence[str]
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    if problems := text_problems(text, parsed):
        return problems
    lines = field_lines(text)
    data = parsed.value.get("data")
    found = sorted(key for key in data if key.endswith(_CONF_SUFFIX)) if isinstance(data, dict) else []
    conf = data[found[0]] if len(found) == 1 else None
    if not isinstance(conf, str):
        detail = f"must have exactly one text whose name ends in {_CONF_SUFFIX}, such as volcano-scheduler.conf"
        return [ConfigProblem(invalid("data", found, detail), lines.line_of("data"))]
    path = f"data.{found[0]}"
    inner = decode_text(conf.encode())
    if inner.error is not None:
        return [ConfigProblem(msgspec.structs.replace(parse_error(inner.error), path=path), lines.line_of(path))]
    read = _read_volcano_conf(conf.encode(), inner, registry, names)
    if isinstance(read, KubeSchedulerConfiguration):
        return read
    first_line = lines.literals.get(path)
    return [_nested_problem(each, path, first_line, lines.line_of(path)) for each in read]


def _nested_problem(problem: ConfigProblem, path: str, first_line: int | None, line: int) -> ConfigProblem:
    """A problem in the nested text, with its own line if the text is a literal block."""
    if problem.line is not None and first_line is not None:
        return ConfigProblem(problem.error, first_line - 1 + problem.line)
    return ConfigProblem(msgspec.structs.replace(problem.error, path=f"{path}: {problem.error.path}"), line)
