"""What the outcome of a write means to the scheduler: one table, and the one refusal that has to be read. Pure."""

from __future__ import annotations

from typing import Final

from headgate.client.outcome import Outcome, Verdict
from headgate.scheduling.effects import Result

_RESULTS: Final = {
    Outcome.DONE: Result.DONE,
    Outcome.GONE: Result.GONE,
    Outcome.REPLACED: Result.GONE,
    Outcome.CONFLICT: Result.TAKEN,
    Outcome.REFUSED: Result.REFUSED,
    Outcome.BLOCKED: Result.LATER,
    Outcome.LATER: Result.LATER,
    Outcome.UNKNOWN: Result.UNKNOWN,
    Outcome.FENCED: Result.LATER,
}
_STILL_GATED: Final = "non-empty .spec.schedulingGates"


def result_of(verdict: Verdict) -> Result:
    if verdict.outcome is Outcome.CONFLICT and _STILL_GATED in verdict.message:
        return Result.GATED
    return _RESULTS[verdict.outcome]
