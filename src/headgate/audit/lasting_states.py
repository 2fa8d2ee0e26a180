"""States that must not last: gates that nobody removes, finalizers, leaked quota, starved units.

Such a state is no error at one revision. It is a finding when it has lasted longer than a limit, at its end or at the
end of the recording.
"""

from __future__ import annotations

import msgspec

from headgate.audit.findings import Finding


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
        self._open: dict[tuple[str, str], _Lasting] = {}

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
            self._open.setdefault(key, _Lasting(began_s, revision, text, certain))
        elif (ended := self._open.pop(key, None)) is not None:
            self._end(rule, subject, ended, at_s)

    def clear(self, subject: str, at_s: float) -> None:
        """The object is gone."""
        for rule in self._limits_s:
            self.set(rule, subject, None, at_s, 0)

    def finish(self, at_s: float) -> None:
        for (rule, subject), ended in sorted(self._open.items()):
            self._end(rule, subject, ended, at_s)
        self._open = {}

    def _end(self, rule: str, subject: str, state: _Lasting, at_s: float) -> None:
        if at_s - state.since_s >= self._limits_s[rule]:
            found = Finding(rule, subject, state.text, state.since_s, state.revision, state.certain, at_s)
            self.findings.append(found)
