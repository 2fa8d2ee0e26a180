"""Writes a tree of `headgate.install.template` as a template of Helm: YAML with actions in place of its nodes.

`tools/render_chart.py` puts the templates together. `headgate.install.template.resolve` gives the same tree to
`headgate install`; `tests/real/test_helm.py` compares what both make of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.install.template import (
    SHA256,
    Condition,
    Either,
    Items,
    JSONText,
    Merged,
    Setting,
    TemplateObject,
    Text,
    Tree,
    When,
)

COMPUTED = {
    "$namespace": ".Release.Namespace",
    "$version": ".Chart.AppVersion",
    "$image": 'include "headgate.image" .',
    "$components": 'include "headgate.components" .',
    "$managedBy": ".Release.Service",
    "$instance": ".Release.Name",
}
_PLAIN = re.compile(r"[A-Za-z/][\w./-]*( [\w./-]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class Expression:
    """A scalar that only the chart has."""

    def __init__(self, code: str) -> None:
        self.code = code


class ChartTemplate:
    """`defaults`: the values of the chart, which say of which type a setting is."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = defaults

    def document(self, each: TemplateObject) -> str:
        lines = ["---", *self._mapping(each.body, 0)]
        return "\n".join(self.guarded(each.condition, lines)) + "\n"

    def guarded(self, condition: Condition | None, lines: list[str]) -> list[str]:
        if condition is None:
            return lines
        return [f"{{{{- if {self.test(condition)} }}}}", *lines, "{{- end }}"]

    def test(self, condition: Condition) -> str:
        paths = [self._code(path) for path in condition.any_of]
        code = paths[0] if len(paths) == 1 else f"or {' '.join(paths)}"
        code = f"not ({code})" if condition.negated else code
        every = "".join(f" {self._code(path)}" for path in condition.all_of)
        return f"and ({code}){every}" if every else code

    def _mapping(self, tree: Mapping[str, Tree], depth: int) -> list[str]:
        lines: list[str] = []
        for key, value in tree.items():
            if isinstance(value, When):
                lines += self.guarded(value.condition, self._entry(key, value.value, depth))
            elif isinstance(value, Either):
                first, *rest = self.guarded(value.condition, self._entry(key, value.value, depth))
                lines += [first, *rest[:-1], "{{- else }}", *self._entry(key, value.otherwise, depth), rest[-1]]
            else:
                lines += self._entry(key, value, depth)
        return lines

    def _entry(self, key: str, value: Tree, depth: int) -> list[str]:
        pad = "  " * depth
        head = f"{pad}{scalar(key)}:"
        if isinstance(value, str) and "\n" in value:
            return [f"{head} |-", *(f"{pad}  {escaped(line)}" for line in value.split("\n"))]
        block = self._block(value, depth + 1)
        return [f"{head} {self._scalar(value)}"] if block is None else [head, *block]

    def _block(self, value: Tree, depth: int) -> list[str] | None:
        """The lines below a key; None for a scalar, which follows the key."""
        pad = "  " * depth
        if isinstance(value, Merged):
            given = " ".join(f"{json.dumps(key)} {self._operand(each)}" for key, each in value.entries.items())
            merged = f"merge (deepCopy {self._code(value.path)}) (dict {given})"
            return [f"{pad}{{{{- toYaml ({merged}) | nindent {2 * depth} }}}}"]
        if isinstance(value, Setting) and isinstance(self._default(value.path), dict | list):
            return [f"{pad}{{{{- toYaml {self._code(value.path)} | nindent {2 * depth} }}}}"]
        if isinstance(value, Mapping) and value:
            return self._mapping(value, depth)
        if isinstance(value, Sequence) and not isinstance(value, str) and value:
            return self._items(value, depth)
        return None

    def _items(self, items: Sequence[Tree], depth: int) -> list[str]:
        lines: list[str] = []
        pad = "  " * depth
        for each in items:
            if isinstance(each, Items):
                lines.append(f"{{{{- with {self._code(each.path)} }}}}")
                lines += [f"{pad}{{{{- toYaml . | nindent {2 * depth} }}}}", "{{- end }}"]
            elif isinstance(each, When):
                lines += self.guarded(each.condition, self._item(each.value, depth))
            else:
                lines += self._item(each, depth)
        return lines

    def _item(self, value: Tree, depth: int) -> list[str]:
        pad = "  " * depth
        block = self._block(value, depth + 1)
        if block is None:
            return [f"{pad}- {self._scalar(value)}"]
        if block[0].lstrip().startswith("{{"):
            return [f"{pad}-", *block]
        return [f"{pad}- {block[0].lstrip()}", *block[1:]]

    def _scalar(self, value: Tree) -> str:
        match value:
            case Expression(code=code):
                return f"{{{{ {code} }}}}"
            case Setting(path):
                is_text = path.startswith("$") or isinstance(self._default(path), str)
                return f"{{{{ {self._code(path)}{' | quote' if is_text else ''} }}}}"
            case JSONText():
                return f"{{{{ {self._json(value)} | quote }}}}"
            case Text(parts):
                texts = (f"{{{{ {self._code(each.path)} }}}}" if isinstance(each, Setting) else each for each in parts)
                return f'"{"".join(texts)}"'
            case _:
                return scalar(value)

    def _json(self, value: JSONText) -> str:
        given = " ".join(f"{json.dumps(key)} {json.dumps(each)}" for key, each in value.entries.items())
        return f"toJson (merge (dict {given}) {self._code(value.path)})"

    def _operand(self, value: Tree) -> str:
        if isinstance(value, SHA256):
            return f"({self._json(value.text)} | sha256sum)"
        if isinstance(value, Setting):
            code = self._code(value.path)
            return f"({code})" if " " in code else code
        return json.dumps(value)

    def _code(self, path: str) -> str:
        return COMPUTED[path] if path.startswith("$") else f".Values.{path}"

    def _default(self, path: str) -> Any:
        found: Any = "" if path.startswith("$") else self._defaults
        for key in () if path.startswith("$") else path.split("."):
            found = found[key]
        return found


def scalar(value: Any) -> str:
    """A scalar, or an empty collection, in YAML; text is quoted unless it is plain."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return escaped(json.dumps(value, ensure_ascii=False))


def escaped(text: str) -> str:
    """Braces of other template languages (Prometheus, Grafana) are text for Helm."""
    return re.sub(r"\{\{|\}\}", lambda found: '{{ "' + found[0] + '" }}', text)
