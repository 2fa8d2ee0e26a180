"""The text of a scheduler configuration: detects its kind and calls ``scheduling/config/``.

Two kinds are known by their content: a ``KubeSchedulerConfiguration``, and a ``volcano-scheduler.conf``, which may also
be in the ConfigMap that Volcano reads it from. Such a conf names no scheduler: the caller gives the names.
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

_ENDING: Final = ".conf"
_LINE: Final = "line "


class ConfigProblem(msgspec.Struct, frozen=True):
    """What is wrong, and on which line if that is known."""

    error: FieldError
    line: int | None = None

    def at(self, file: object) -> str:
        return f"{file}: {self.error}" if self.line is None else f"{file}:{self.line}: {self.error}"


def read_configuration(
    text: bytes, registry: Registry, names: Sequence[str] = ()
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    """``names``: the schedulers that a file is for which does not name any. A field that is written twice is an error,
    too: one of the two would be ignored."""
    parsed = decode_yaml(text)
    if parsed.error is not None:
        return [ConfigProblem(_unreadable(parsed.error))]
    if _is_conf(parsed.value):
        return _of_conf(parsed, field_lines(text), names)
    if _is_config_map(parsed.value):
        return _of_config_map(parsed, field_lines(text), names)
    read = parse_configuration(parsed.value, registry)
    twice = [ConfigProblem(_written_twice(each)) for each in parsed.duplicates]
    if isinstance(read, KubeSchedulerConfiguration):
        return twice or read
    return [*twice, *(ConfigProblem(each) for each in read)]


def _is_conf(value: Any) -> bool:
    return isinstance(value, dict) and "kind" not in value and not DISTINGUISHING.isdisjoint(value)


def _is_config_map(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == "ConfigMap"


def _of_conf(
    parsed: ParsedBody, lines: FieldLines, names: Sequence[str]
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    read = parse_volcano_conf(parsed.value)
    wrong = [ConfigProblem(error, _own_line(error)) for error in map(_written_twice, parsed.duplicates)]
    if not isinstance(read, VolcanoConfiguration):
        wrong += [ConfigProblem(each, lines.line_of(each.path)) for each in read]
        return sorted(wrong, key=lambda each: each.line or 0)
    profiles = tuple(queue_profile(name, read.conf) for name in names)
    return wrong or KubeSchedulerConfiguration(profiles, percentage_of_nodes_to_score=ALL, remarks=read.remarks)


def _of_config_map(
    parsed: ParsedBody, lines: FieldLines, names: Sequence[str]
) -> KubeSchedulerConfiguration | list[ConfigProblem]:
    data = parsed.value.get("data")
    found = sorted(key for key in data if key.endswith(_ENDING)) if isinstance(data, dict) else []
    text = data[found[0]] if len(found) == 1 else None
    if not isinstance(text, str):
        detail = f"must have exactly one text whose name ends in {_ENDING}, such as volcano-scheduler.conf"
        return [ConfigProblem(invalid("data", found, detail), lines.line_of("data"))]
    path = f"data.{found[0]}"
    inner = decode_yaml(text.encode())
    if inner.error is not None:
        return [ConfigProblem(msgspec.structs.replace(_unreadable(inner.error), path=path), lines.line_of(path))]
    read = _of_conf(inner, field_lines(text.encode()), names)
    if isinstance(read, KubeSchedulerConfiguration):
        return read
    begins = lines.literals.get(path)
    return [_further_in(each, path, begins, lines.line_of(path)) for each in read]


def _further_in(wrong: ConfigProblem, path: str, begins: int | None, line: int) -> ConfigProblem:
    """A complaint about the text inside: on its own line if the text stands there line by line."""
    if wrong.line is not None and begins is not None:
        return ConfigProblem(wrong.error, begins - 1 + wrong.line)
    return ConfigProblem(msgspec.structs.replace(wrong.error, path=f"{path}: {wrong.error.path}"), line)


def _unreadable(error: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, "", detail=f"this is neither YAML nor JSON: {error}")


def _written_twice(sentence: str) -> FieldError:
    """JSON is answered with the field (``duplicate field "a.b"``), YAML with the line (``line 3: key "b" …``)."""
    if sentence.startswith(_LINE):
        line, _, detail = sentence.partition(": ")
        return forbidden(line, detail)
    return forbidden(sentence.removeprefix("duplicate field ").strip('"'), "duplicate field")


def _own_line(error: FieldError) -> int | None:
    line = error.path.removeprefix(_LINE)
    return int(line) if line != error.path and line.isdecimal() else None
