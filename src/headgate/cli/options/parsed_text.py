"""An option type for texts that have a parser, such as selectors and durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class ParsedText(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3; we support 8.2
    """``parse`` returns the value, or an error text. A value that is no text was parsed before: the configuration file
    (``cli/configuration/``) provides such values as defaults of options."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        parsed = self._parse(value)
        if isinstance(parsed, str):
            self.fail(parsed, param, ctx)
        return parsed
