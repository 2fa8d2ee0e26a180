"""Turns a response into what two servers must agree on: unpredictable values become stable tokens.

A `Normaliser` lives for one case on one server. The same uid, revision, generated name, cluster IP or node port always
gives the same token, in a body or inside a message, so that equalities survive (a revision that did not change). Times
and ages have no identity: a second may pass between two writes on one server and not on the other. The revision of a
list has none either, because a real server writes its own leases meanwhile.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

# A signed token: what it claims is compared, its signature and the name of the key are each server's own.
SIGNED = re.compile(r"\beyJ[\w-]+\.(?P<claims>eyJ[\w-]+)\.[\w-]*")
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?P<fraction>\.\d+)?Z")
DATE = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d (?:[+-]\d{4}|GMT)")
REVISION_IN_TEXT = re.compile(
    r"(?P<before>ResourceVersion in object meta: |, current: |ResourceVersion in record \()(?P<revision>\d+)"
)
REVISION_IN_OBJECT = re.compile(r'(?P<before>resourceVersion\\*":\\*")(?P<revision>\d+)')
HASH = re.compile(r"\?hash=[0-9A-Za-z_%-]+")
QUOTED_OBJECT = re.compile(r'Invalid value: ("\{(?:[^"\\]|\\.)*\}")')
ALLOCATED_PORT = re.compile(r"(?<=Duplicate value: )3\d{4}\b|(?<=duplicate nodePort: \{TCP )\d+")
ALLOCATED_IP = re.compile(r'(?<=IPAddress.networking.k8s.io ")[0-9.]+')
AGE = re.compile(r"\d+(?:\.\d+)?(?:ms|s|m|h|d|y)(?:\d+[smhd])*")
AGE_COLUMNS = frozenset({"Age", "Last Seen", "First Seen", "Duration", "Last Schedule"})
BUILD_FIELDS = frozenset({"buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform"})
NEAR = timedelta(hours=6)
LOWEST_NODE_PORT = 30000


class Normaliser:
    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses
        self._tokens: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._learned: dict[str, str] = {}
        self._ages: frozenset[int] = frozenset()
        self._bases: list[re.Pattern[str]] = []

    def body(self, raw: bytes, content_type: str) -> Any:
        """JSON and YAML as values, anything else as text."""
        if "json" in content_type or raw[:1] in (b"{", b"["):
            try:
                return self.value(json.loads(raw))
            except ValueError:
                pass
        if "yaml" in content_type:
            return self.value(yaml.safe_load(raw))
        return self.text(raw.decode("utf-8", "replace"))

    def value(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        if isinstance(value, dict):
            return self._mapping(value, path)
        if isinstance(value, list):
            items = [self.value(item, (*path, str(index))) for index, item in enumerate(value)]
            order = _ORDERS.get(path[-1]) if path else None
            return order(items) if order else items
        if isinstance(value, str):
            return self.text(value)
        return value

    def text(self, text: str) -> str:
        for address in self._addresses:
            text = text.replace(address, "<server>")
        text = SIGNED.sub(self._signed, text)
        text = UUID.sub(lambda found: self._token("uid", found[0]), text)
        text = TIME.sub(time_token, text)
        text = DATE.sub("<date>", text)
        text = REVISION_IN_TEXT.sub(lambda found: found["before"] + "<revision>", text)
        text = REVISION_IN_OBJECT.sub(self._quoted_revision, text)
        for base in self._bases:
            text = base.sub(lambda found: self._token("name", found[0]), text)
        text = QUOTED_OBJECT.sub(self._quoted_object, text)
        text = ALLOCATED_PORT.sub(lambda found: self._token("port", found[0]), text)
        text = ALLOCATED_IP.sub(lambda found: self._token("ip", found[0]), text)
        text = HASH.sub("?hash=<hash>", text)
        for known, token in self._learned.items():
            if known in text:
                text = re.sub(rf"(?<![\w.-]){re.escape(known)}(?![\w-])", token, text)
        return text

    def _signed(self, found: re.Match[str]) -> str:
        """What a token claims; of its times only how far they are apart."""
        try:
            claims = json.loads(base64.urlsafe_b64decode(found["claims"] + "=="))
        except ValueError:
            return "<token>"
        start = claims.get("iat", 0)
        times = {name: claims[name] - start for name in ("exp", "nbf", "iat") if name in claims}
        if "warnafter" in claims.get("kubernetes.io", {}):
            times["warnafter"] = claims["kubernetes.io"].pop("warnafter") - start
        return f"<token {json.dumps({**claims, **times}, sort_keys=True)}>"

    def _mapping(self, value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        self._learn_generated_name(value)
        if value.get("kind") == "Table" and isinstance(value.get("rows"), list):
            value = {**value, "rows": self._without_ages(value)}
        normal: dict[str, Any] = {}
        for key, item in value.items():
            rule = _RULES.get(key)
            normal[self.text(key)] = rule(self, item, value, path) if rule else self.value(item, (*path, key))
        return normal

    def _learn_generated_name(self, value: dict[str, Any]) -> None:
        base, name = value.get("generateName"), value.get("name")
        if isinstance(base, str) and isinstance(name, str) and base and name != base and name.startswith(base[:58]):
            self._learn("name", name)

    def _without_ages(self, table: dict[str, Any]) -> list[Any]:
        # A watch sends the columns with its first Table only; later rows are read with those.
        columns = table.get("columnDefinitions") or []
        if columns:
            self._ages = frozenset(index for index, column in enumerate(columns) if column.get("name") in AGE_COLUMNS)
        rows = []
        for row in table["rows"]:
            cells = [
                "<age>" if index in self._ages and isinstance(cell, str) and AGE.fullmatch(cell) else cell
                for index, cell in enumerate(row.get("cells") or [])
            ]
            rows.append({**row, "cells": cells})
        return rows

    def expect_generated(self, base: str) -> None:
        """A request asked for a generated name: a refusal may tell it too."""
        self._bases.append(re.compile(re.escape(base[:58]) + r"[a-z0-9]{5}\b"))

    def _quoted_object(self, found: re.Match[str]) -> str:
        """A refusal that quotes a whole document back: the order of its keys says nothing."""
        try:
            document = self.value(json.loads(json.loads(found[1])))
        except ValueError:
            return found[0]
        return f"Invalid value: {json.dumps(json.dumps(document, sort_keys=True))}"

    def _quoted_revision(self, found: re.Match[str]) -> str:
        return found["before"] + self._token("revision", found["revision"])

    def _token(self, kind: str, value: str) -> str:
        token = self._tokens.get((kind, value))
        if token is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            token = self._tokens[(kind, value)] = f"<{kind}-{self._counts[kind]}>"
        return token

    def _learn(self, kind: str, value: str) -> str:
        token = self._token(kind, value)
        self._learned[value] = token
        return token

    def _revision(self, value: Any, siblings: dict[str, Any], path: tuple[str, ...]) -> Any:
        if path[-1:] != ("metadata",) or not isinstance(value, str) or not value.isdigit() or value == "0":
            return value
        return self._token("revision", value) if "name" in siblings else "<list-revision>"

    def _continue(self, value: Any, siblings: dict[str, Any], path: tuple[str, ...]) -> Any:
        return "<continue>" if value and path[-1:] == ("metadata",) else value

    def _cluster_ip(self, value: Any, siblings: dict[str, Any], path: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._cluster_ip(item, siblings, path) for item in value]
        return self._learn("ip", value) if value and value != "None" else value

    def _node_port(self, value: Any, siblings: dict[str, Any], path: tuple[str, ...]) -> Any:
        return self._learn("port", str(value)) if isinstance(value, int) and value >= LOWEST_NODE_PORT else value

    def _build_field(self, value: Any, siblings: dict[str, Any], path: tuple[str, ...]) -> Any:
        return "<build>" if "gitVersion" in siblings else value

    def _server_address(self, value: Any, siblings: dict[str, Any], path: tuple[str, ...]) -> Any:
        return "<server>"


_Rule = Callable[[Normaliser, Any, dict[str, Any], tuple[str, ...]], Any]
_RULES: dict[str, _Rule] = {
    "resourceVersion": Normaliser._revision,
    "continue": Normaliser._continue,
    "clusterIP": Normaliser._cluster_ip,
    "clusterIPs": Normaliser._cluster_ip,
    "nodePort": Normaliser._node_port,
    "healthCheckNodePort": Normaliser._node_port,
    "serverAddress": Normaliser._server_address,
    **dict.fromkeys(BUILD_FIELDS, Normaliser._build_field),
}


def time_token(found: re.Match[str]) -> str:
    """Times that a test wrote itself lie far from now and are compared to the letter."""
    now = datetime.now(UTC)
    try:
        when = datetime.fromisoformat(found[0])
    except ValueError:
        return found[0]
    if abs(now - when) > NEAR:
        return found[0]
    return "<microtime>" if found["fraction"] else "<time>"


def _conflicts_in_order(causes: list[Any]) -> list[Any]:
    """Which of several managers a conflict names first is a matter of Go's map order."""
    if all(isinstance(cause, dict) and cause.get("reason") == "FieldManagerConflict" for cause in causes):
        return sorted(causes, key=lambda cause: (str(cause.get("field")), str(cause.get("message"))))
    return causes


def _in_manager_order(entries: list[Any]) -> list[Any]:
    """Entries of one operation are sorted by time first, so their order depends on where a second ended."""

    def key(entry: Any) -> tuple[str, ...]:
        return tuple(str(entry.get(name, "")) for name in ("operation", "manager", "apiVersion", "subresource"))

    return sorted(entries, key=key) if all(isinstance(entry, dict) for entry in entries) else entries


def _sorted(rules: list[Any]) -> list[Any]:
    return sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True))


_ORDERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "managedFields": _in_manager_order,
    "causes": _conflicts_in_order,
    # Go's map order decides the order of bindings, and so of the rules that a user has.
    "resourceRules": _sorted,
    "nonResourceRules": _sorted,
}
