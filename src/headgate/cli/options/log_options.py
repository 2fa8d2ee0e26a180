"""Log lines as text or JSON, and the two options for them that every command has."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import msgspec

F = TypeVar("F", bound=Callable[..., Any])

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up(level: str, form: str) -> None:
    """Logs go to standard error; standard output is for the output of the command."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _remember(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The option may be before or after the command's name; the last one counts."""
    settings: dict[str, str] = context.ensure_object(dict)
    if value is not None and parameter.name is not None:
        settings[parameter.name] = value
    if "log_level" in settings or "log_format" in settings:
        set_up(settings.get("log_level", "warning"), settings.get("log_format", "text"))
    return value


def log_options(command: F) -> F:
    command = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        expose_value=False,
        callback=_remember,
        help="The format of log lines on standard error. [default: text]",
    )(command)
    return click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        expose_value=False,
        callback=_remember,
        help="The lowest level of log lines on standard error. [default: warning]",
    )(command)
