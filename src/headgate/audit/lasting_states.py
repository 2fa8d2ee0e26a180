"""States that must not last: gates that nobody removes, finalizers, leaked quota, starved units.

Such a state is no error at one revision. It is a finding when it has lasted longer than a limit, at its end or at the
end of the recording; in an audit that goes on, as soon as it has (:meth:`LastingStates.report_overdue`).
"""

from __future__ import annotations

import msgspec

from headgate.audit.findings import Finding
from headgate.waiting.heap import DeadlineHeap

Key = tuple[str, str]
"""Rule and subject."""


class _Lasting(msgspec.Struct, frozen=True):
    since_s: float
    revision: int
    text: str
    certain: bool


class LastingStates:
    """``limits_s``: by rule, how long its states may last."""

    def __init__(self, limits_s: dict[str, float]) -> None:
        self.findings: list[Finding] = []
        self._limits_s = limits_s
        self._open: dict[Key, _Lasting] = {}
        self._reported: set[Key] = set()  # open states that are findings already
        self._deadlines: DeadlineHeap[Key] = DeadlineHeap()

    def set(
        self,
        rule: str,
        subject: str,
        text: str | None,
        at_s: float,
        revision: int,
        *,
        certain: bool = True,
        since_s: float | None = None,
    ) -> None:
        """``text``: None if the subject is not in this state. ``since_s``: when the state began, if not at ``at_s``."""
        key = rule, subject
        if text is not None:
            began_s = at_s if since_s is None else since_s
            if key not in self._open:
                self._open[key] = _Lasting(began_s, revision, text, certain)
                self._deadlines.put(key, began_s + self._limits_s[rule])
        elif (ended := self._open.pop(key, None)) is not None:
            self._deadlines.discard(key)
            self._end(rule, subject, ended, at_s)

    def clear(self, subject: str, at_s: float) -> None:
        """The object is gone."""
        for rule in self._limits_s:
            self.set(rule, subject, None, at_s, 0)

    def finish(self, at_s: float) -> None:
        for (rule, subject), ended in sorted(self._open.items()):
            self._end(rule, subject, ended, at_s)
        self._open = {}

    def report_overdue(self, at_s: float) -> None:
        """The states that have lasted too long by now are findings, although they have not ended."""
        for key in self._deadlines.due(at_s):
            self._end(*key, self._open[key], at_s)
            self._reported.add(key)

    def overdue(self) -> dict[str, int]:
        """How many states have lasted too long, by rule."""
        counts = dict.fromkeys(self._limits_s, 0)
        for rule, _ in self._reported:
            counts[rule] += 1
        return counts

    def _end(self, rule: str, subject: str, state: _Lasting, at_s: float) -> None:
        if (rule, subject) in self._reported:
            self._reported.discard((rule, subject))
            return
        if at_s - state.since_s >= self._limits_s[rule]:
            found = Finding(rule, subject, state.text, state.since_s, state.revision, state.certain, at_s)
            self.findings.append(found)
