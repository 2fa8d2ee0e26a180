"""Regular expressions of schemas, matched in linear time whatever they are.

The pattern of a schema is a stranger's, and so is the text: an engine that backtracks could be kept busy for ever.
The engine here is the automaton of jsonschema-rs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import jsonschema_rs

_ENGINE: Final = jsonschema_rs.RegexOptions()


class Pattern:
    __slots__ = ("_validator",)

    def __init__(self, validator: jsonschema_rs.Draft7Validator) -> None:
        self._validator: Final = validator

    def found_in(self, text: str) -> bool:
        return self._validator.is_valid(text)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Pattern | str:
    """The compiled pattern, or why it is none."""
    try:
        return Pattern(jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=_ENGINE))
    except (ValueError, jsonschema_rs.ValidationError) as problem:
        return f"error parsing regexp: {problem}"
