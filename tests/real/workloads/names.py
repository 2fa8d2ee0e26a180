"""Makes generated and hashed names comparable: what differs between two clusters becomes a stable token.

The hash of a ReplicaSet becomes `<hash-1>`, `<hash-2>` in the order of a Deployment's revisions, that of a
ControllerRevision `<revision-1>` ..., the minute in the name of a CronJob's Job `<minute-1>` ..., the five random
characters of a pod `*`. A token stays known for the rest of the scenario, also after its object is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from harness.normalise import TIME, time_token

Object = dict[str, Any]

DRAWN = "[bcdfghjklmnpqrstvwxz2456789]{5}"
UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
NODE = re.compile(r"\bnode-\d{4}\b")
ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
REVISION = "deployment.kubernetes.io/revision"
DRAWING = ("replicasets", "daemonsets", "jobs", "replicationcontrollers")
"""Kinds whose pods have random names."""


class Names:
    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._prefixes: set[str] = set()
        self._drawn: re.Pattern[str] | None = None

    def learn(self, found: Mapping[str, Iterable[Object]]) -> None:
        """`found`: objects by the plural of their kind."""
        for each in sorted(found.get("replicasets", ()), key=_revision_of_set):
            self._add("hash", each, str((each["metadata"].get("labels") or {}).get("pod-template-hash", "")))
        for each in sorted(found.get("controllerrevisions", ()), key=lambda one: (one["revision"], _name(one))):
            self._add("revision", each, _name(each).removeprefix(f"{_owner(each)}-"))
        for each in sorted(found.get("jobs", ()), key=_name):
            minute = _name(each).removeprefix(f"{_owner(each)}-")
            self._add("minute", each, minute if minute.isdigit() and len(minute) >= 8 else "")
        bases = {_name(each) for kind in DRAWING for each in found.get(kind, ())}
        bases |= {
            base for each in found.get("pods", ()) if (base := str(each["metadata"].get("generateName", ""))[:-1])
        }
        if not bases <= self._prefixes:
            self._prefixes |= bases
            longest_first = sorted(self._prefixes, key=lambda base: (-len(base), base))
            either = "|".join(re.escape(base) for base in longest_first)
            self._drawn = re.compile(rf"(?<![\w.-])((?:{either})-(?:\d+-)?){DRAWN}(?![\w-])")

    def text(self, text: str) -> str:
        if self._drawn is not None:
            text = self._drawn.sub(r"\1*", text)
        for known, word in self._words.items():
            if known in text:
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(known)}(?![A-Za-z0-9])", word, text)
        text = TIME.sub(time_token, UID.sub("<uid>", text))
        return ADDRESS.sub("<ip>", NODE.sub("<node>", text))

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def _add(self, what: str, obj: Object, known: str) -> None:
        if known and known not in self._words:
            owner = (what, _owner(obj))
            self._counts[owner] = self._counts.get(owner, 0) + 1
            self._words[known] = f"<{what}-{self._counts[owner]}>"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _owner(obj: Object) -> str:
    owners = obj["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("name", ""))


def _revision_of_set(obj: Object) -> tuple[int, str]:
    revision = (obj["metadata"].get("annotations") or {}).get(REVISION, "")
    return (int(revision) if revision.isdigit() else 0, _name(obj))
