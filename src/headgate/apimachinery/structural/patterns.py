"""Matches the patterns of schemas in linear time.

Pattern and text come from untrusted clients: a backtracking engine could run forever. The engine is the
automaton of jsonschema-rs; ``re2.py`` parses patterns as Go does and translates them for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import jsonschema_rs

from headgate.apimachinery.structural.re2 import InvalidExpression, translate

# A larger compiled pattern is rejected, because matching takes time in proportion to its size.
MAX_BYTES: Final = 10 << 20
MAX_CHARACTERS: Final = 32 * 1024
"""No other thread runs while a pattern is compiled, which takes up to 1 microsecond per character."""
MAX_STEPS: Final = 6_000_000
"""The steps of one match, during which no other thread runs, of about 7 nanoseconds each. A match takes at most as many
steps as the text has bytes, times the states of the automaton."""
MAX_TOTAL_STATES: Final = 200_000
"""The states of all patterns of one CustomResourceDefinition. Their compilation takes about a second, and a state takes
up to a kilobyte of memory."""
_ENGINE: Final = jsonschema_rs.RegexOptions(size_limit=MAX_BYTES, dfa_size_limit=256 * 1024)


class Pattern:
    """``states``: those of the automaton. ``max_bytes``: a longer text is not matched."""

    __slots__ = ("_validator", "max_bytes", "states")

    def __init__(self, validator: jsonschema_rs.Draft202012Validator, states: int) -> None:
        self._validator: Final = validator
        self.states: Final = states
        self.max_bytes: Final = MAX_STEPS // states

    def matches(self, text: str) -> bool:
        return self._validator.is_valid(text)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern | str:
    """The compiled pattern, or the error text."""
    if len(pattern) > MAX_CHARACTERS:
        return _too_large(pattern)
    try:
        translated = translate(pattern, _is_known_class)
    except InvalidExpression as problem:
        return str(problem)
    compiled = _compile(translated.text)
    return _too_large(pattern) if compiled is None else Pattern(compiled, translated.states)


@lru_cache(maxsize=1024)
def pattern_states(pattern: str) -> int:
    """The states of the automaton; 0 for a pattern that is invalid or not matched."""
    if len(pattern) > MAX_CHARACTERS:
        return 0
    try:
        return translate(pattern, _is_known_class).states
    except InvalidExpression:
        return 0


def _too_large(pattern: str) -> str:
    return f"error parsing regexp: expression too large: `{pattern}`"


def _compile(translated: str) -> jsonschema_rs.Draft202012Validator | None:
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": translated}, pattern_options=_ENGINE)
    except (ValueError, jsonschema_rs.ValidationError):
        return None


@lru_cache(maxsize=1024)
def _is_known_class(name: str) -> bool:
    """Whether a script or category exists. Go requires a capital letter; the engine ignores the case."""
    return (
        name[0].isupper()
        and name.isascii()
        and name.replace("_", "").isalnum()
        and _compile(rf"\p{{{name}}}") is not None
    )
