"""The patterns of schemas, matched in time linear in the text.

Pattern and text come from untrusted clients: a backtracking engine could be blocked for ever. The engine is the
automaton of jsonschema-rs; ``re2.py`` parses patterns as Go does and translates them for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import jsonschema_rs

from headgate.apimachinery.structural.re2 import InvalidExpression, translate

# A pattern that needs more is refused: text is matched against all of it, letter by letter.
MAX_BYTES: Final = 10 << 20
MAX_CHARACTERS: Final = 32 * 1024
"""Compiling a pattern is one call, during which no other thread runs: about 1 microsecond a character at the worst."""
_ENGINE: Final = jsonschema_rs.RegexOptions(size_limit=MAX_BYTES)


class Pattern:
    __slots__ = ("_validator",)

    def __init__(self, validator: jsonschema_rs.Draft202012Validator) -> None:
        self._validator: Final = validator

    def found_in(self, text: str) -> bool:
        return self._validator.is_valid(text)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern | str:
    """The compiled pattern, or why it is none."""
    if len(pattern) > MAX_CHARACTERS:
        return _too_large(pattern)
    try:
        compiled = _compile(translate(pattern, _knows))
    except InvalidExpression as problem:
        return str(problem)
    return _too_large(pattern) if compiled is None else Pattern(compiled)


def _too_large(pattern: str) -> str:
    return f"error parsing regexp: expression too large: `{pattern}`"


def _compile(translated: str) -> jsonschema_rs.Draft202012Validator | None:
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": translated}, pattern_options=_ENGINE)
    except (ValueError, jsonschema_rs.ValidationError):
        return None


@lru_cache(maxsize=1024)
def _knows(name: str) -> bool:
    """Names of scripts and categories begin with a capital letter; the engine would take them in any case."""
    return (
        name[0].isupper()
        and name.isascii()
        and name.replace("_", "").isalnum()
        and _compile(rf"\p{{{name}}}") is not None
    )
