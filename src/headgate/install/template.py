"""Kubernetes objects with open places: one tree gives the objects of ``headgate install`` and the templates of the
Helm chart.

A tree is made of dictionaries, lists and scalars as in YAML, and of the nodes below. :func:`resolve` replaces the nodes
by values and gives plain objects; ``tools/chart_template.py`` writes the same tree in Helm's template language.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

Tree = Any
"""A dictionary, list or scalar of YAML that may contain nodes of this module."""

_ESCAPED: Final = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""The characters that Go's encoder of JSON escapes beside those that JSON requires."""


class Setting(msgspec.Struct, frozen=True):
    """The value of an option, by its path: ``image.pullPolicy``. A name with ``$`` is computed: see ``COMPUTED``."""

    path: str


COMPUTED: Final = {
    "$namespace": "The namespace of the installation.",
    "$version": "The version of this release.",
    "$image": "The image with its tag or digest.",
    "$components": "The components, separated by commas.",
    "$managedBy": "The program that manages the objects: headgate-install or Helm.",
    "$instance": "Which installation the objects are of: its namespace, or the release of Helm.",
}


class Text(msgspec.Struct, frozen=True):
    """Text and settings, joined."""

    parts: tuple[str | Setting, ...]


class Condition(msgspec.Struct, frozen=True):
    """True if one of the options is true, or is not empty; ``negated``: if none of them is. ``all_of``: each of these
    has to be true, too."""

    any_of: tuple[str, ...]
    negated: bool = False
    all_of: tuple[str, ...] = ()


class When(msgspec.Struct, frozen=True):
    """An item of a list, or the value of a key, that is left out unless the condition is true."""

    condition: Condition
    value: Tree


class Either(msgspec.Struct, frozen=True):
    """The value of a key that depends on the condition."""

    condition: Condition
    value: Tree
    otherwise: Tree


class Items(msgspec.Struct, frozen=True):
    """In a list: the items of an option that is a list."""

    path: str


class Merged(msgspec.Struct, frozen=True):
    """A dictionary with further entries from an option, which win."""

    entries: Mapping[str, Tree]
    path: str


class JSONText(msgspec.Struct, frozen=True):
    """The entries of an option as JSON text, with further entries, which win."""

    path: str
    entries: Mapping[str, str]


class SHA256(msgspec.Struct, frozen=True):
    """The hash of a text, in hexadecimal digits."""

    text: JSONText


class TemplateObject(msgspec.Struct, frozen=True):
    """An object, and when it exists. ``condition``: None for always."""

    body: Mapping[str, Tree]
    condition: Condition | None = None

    @property
    def kind(self) -> str:
        return str(self.body["kind"])


def text(*parts: str | Setting) -> Text:
    return Text(parts)


def when(*paths: str) -> Condition:
    return Condition(paths)


class TemplateValues:
    """What the settings of a tree stand for."""

    def __init__(self, options: Mapping[str, Any], computed: Mapping[str, str]) -> None:
        self._options = options
        self._computed = computed

    def get(self, path: str) -> Any:
        if path.startswith("$"):
            return self._computed[path]
        found: Any = self._options
        for key in path.split("."):
            found = found[key]
        return found

    def holds(self, condition: Condition | None) -> bool:
        if condition is None:
            return True
        holds = any(self.get(path) for path in condition.any_of) != condition.negated
        return holds and all(self.get(path) for path in condition.all_of)


def resolve(tree: Tree, values: TemplateValues) -> Any:
    """The tree with values in place of its nodes."""
    match tree:
        case Setting(path):
            return values.get(path)
        case Text(parts):
            return "".join(str(values.get(each.path)) if isinstance(each, Setting) else each for each in parts)
        case Merged(entries, path):
            return {**resolve(entries, values), **values.get(path)}
        case JSONText(path, entries):
            return _go_json({**values.get(path), **entries})
        case SHA256(text_):
            return hashlib.sha256(resolve(text_, values).encode()).hexdigest()
        case When(_, value):
            return resolve(value, values)
        case Either(condition, value, otherwise):
            return resolve(value if values.holds(condition) else otherwise, values)
        case Mapping():
            return {key: resolve(value, values) for key, value in tree.items() if _is_present(value, values)}
        case list() | tuple():
            result: list[Any] = []
            for each in tree:
                if isinstance(each, Items):
                    result += values.get(each.path)
                elif _is_present(each, values):
                    result.append(resolve(each, values))
            return result
        case _:
            return tree


def _go_json(value: Mapping[str, Any]) -> str:
    """JSON as Helm writes it, so that both give the same hash."""
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for sign, escaped in _ESCAPED.items():
        written = written.replace(sign, escaped)
    return written


def _is_present(tree: Tree, values: TemplateValues) -> bool:
    return not isinstance(tree, When) or values.holds(tree.condition)
