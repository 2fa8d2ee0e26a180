"""Log lines as text or JSON, and the two options for them that every command has."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
import msgspec
from click.core import ParameterSource

from headgate.cli.options.suggestions import SuggestingChoice

F = TypeVar("F", bound=Callable[..., Any])

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the keys that other controllers of Kubernetes use: ``level``, ``ts``, ``logger``,
    ``caller``, ``msg``, the fields of the line, ``stacktrace``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "level": record.levelname.lower(),
            "ts": _time_of(record),
            "logger": record.name,
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
            **_fields_of(record),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Time, level, message, and the fields of the line as ``name=value``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = _fields_of(record)
        return " ".join((super().formatMessage(record), *(f"{name}={_text(fields[name])}" for name in fields)))


def _fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields of a structured line, such as a decision (``runtime/decision_log.py``)."""
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _time_of(record: logging.LogRecord) -> str:
    seconds = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="microseconds")
    return seconds.replace("+00:00", "Z")


def _text(value: Any) -> str:
    """Names and numbers as they are; other values as JSON."""
    if isinstance(value, str) and value and not (set(value) & _QUOTED) and value.isprintable():
        return value
    return msgspec.json.encode(value).decode()


_QUOTED: Final = frozenset(' "=')


def set_up(level: str, form: str) -> None:
    """Logs go to standard error; standard output is for the output of the command."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


_FILE_PREFIX: Final = "file."
"""Settings of the configuration file have this prefix. Those of the command line override them."""


def say(text: str, *, err: bool = False) -> None:
    """Prints a line about the process itself (it starts, leads, stops) to standard output, at every level and in the
    format of log lines. ``err``: to standard error, because standard output is for the result of the command."""
    handlers = logging.getLogger().handlers
    is_json = any(isinstance(each.formatter, JsonFormatter) for each in handlers)
    record = logging.LogRecord("headgate", logging.INFO, __file__, 0, text, (), None)
    click.echo(JsonFormatter().format(record) if is_json else text, err=err)


def _remember(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The option may be before or after the command's name; the last one counts."""
    settings: dict[str, str] = context.ensure_object(dict)
    name = parameter.name or ""
    if value is not None:
        from_file = context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
        settings[f"{_FILE_PREFIX}{name}" if from_file else name] = value
        set_up_from(settings)
    return value


def set_up_from(settings: Mapping[str, str]) -> None:
    """Sets up logging with the settings of the command line, else of the configuration file, else the defaults."""
    level, form = (
        settings.get(name, settings.get(f"{_FILE_PREFIX}{name}", default))
        for name, default in (("log_level", "warning"), ("log_format", "text"))
    )
    set_up(level, form)


def set_file_settings(settings: dict[str, str], level: str | None, form: str | None) -> None:
    """The configuration file has these settings now; None: it does not set them."""
    for name, value in (("log_level", level), ("log_format", form)):
        settings.pop(f"{_FILE_PREFIX}{name}", None)
        if value is not None:
            settings[f"{_FILE_PREFIX}{name}"] = value
    set_up_from(settings)


def log_options(command: F) -> F:
    command = click.option(
        "--log-format",
        type=SuggestingChoice(FORMATS),
        expose_value=False,
        callback=_remember,
        help="The format of log lines on standard error. [default: text]",
    )(command)
    return click.option(
        "--log-level",
        type=SuggestingChoice(LEVELS),
        expose_value=False,
        callback=_remember,
        help="The lowest level of log lines on standard error. [default: warning]",
    )(command)
