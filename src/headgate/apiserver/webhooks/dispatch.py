"""Asks the webhooks that a write concerns: mutating ones one after the other, validating ones all at once.

A generator yields the calls and is sent the answers; meanwhile other writes go on, and the caller takes care of that.
A webhook that cannot be asked or answers nonsense counts as its ``failurePolicy`` says; one that says no ends the
write. When nothing matches, nothing is yielded.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from headgate.apiserver.call import Call
from headgate.apiserver.messages import Effect
from headgate.apiserver.webhooks.asking import Asked, Failure, answers, ask, read, wanted
from headgate.apiserver.webhooks.hook import Hook, Phase
from headgate.apiserver.webhooks.index import Match
from headgate.apiserver.webhooks.mutation import Mutated, mutated
from headgate.apiserver.webhooks.review import Verdict
from headgate.apiserver.webhooks.write import Write
from headgate.kube import status

Object = dict[str, Any]
Mutating = Generator[Effect, Any, "Object | status.ApiError | None"]
Validating = Generator[Effect, Any, "status.ApiError | None"]


class Rounds:
    """Mutating webhooks may be asked twice: those that want it, if something changed after they had their say."""

    def __init__(self) -> None:
        self.second = False
        self.changed = False
        self._last: Object | None = None
        self._asked: set[str] = set()
        self._again: set[str] = set()

    def begin(self, new: Object | None) -> None:
        if self.second and new != self._last:
            self._require()

    def end(self, new: Object | None) -> None:
        self._last = None if new is None else dict(new)

    def skips(self, hook: Hook) -> bool:
        return self.second and hook.key not in self._again

    def note(self, hook: Hook, *, changed: bool) -> None:
        if changed:
            self._require()
            self.changed = True
        if hook.reinvoked:
            self._asked.add(hook.key)

    def _require(self) -> None:
        """The object changed: who was asked before is asked again."""
        self._again |= self._asked
        self._asked.clear()


def matching(call: Call, phase: Phase, operation: str) -> tuple[Match, ...]:
    """What the rules say; selectors are asked when a webhook's turn comes."""
    api = call.api
    return api.webhooks.matching(api.store, api.kinds, phase, operation, call.kind, call.info.subresource)


def mutate(
    call: Call, write: Write, matches: Sequence[Match], new: Object | None, old: Object | None, rounds: Rounds
) -> Mutating:
    """``new`` as the webhooks leave it, as an object of the version of the request."""
    rounds.begin(new)
    for match in matches:
        concerned = wanted(call, write, match.hook, new, old)
        if isinstance(concerned, status.ApiError):
            return concerned
        if not concerned or rounds.skips(match.hook):
            continue
        made = yield from _mutate_once(call, write, match, new, old)
        if isinstance(made, status.ApiError):
            return made
        if isinstance(made, Failure):
            if not match.hook.ignores_failure:
                return made.error(match.hook)
            made = Mutated(new)
        rounds.note(match.hook, changed=made.changed)
        new = made.obj
    rounds.end(new)
    return new


def _mutate_once(
    call: Call, write: Write, match: Match, new: Object | None, old: Object | None
) -> Generator[Effect, Any, Mutated | Failure | status.ApiError]:
    asked = ask(call, write, match, new, old)
    if not isinstance(asked, Asked):
        return asked
    came = yield from answers(call, (asked.call,))
    if isinstance(came, status.ApiError):
        return came
    verdict = read(match.hook, asked.uid, came[0], mutating=True)
    if isinstance(verdict, Failure):
        return verdict
    call.warn(*verdict.warnings)
    return verdict.refusal or mutated(call, write, match, new, verdict)


def validate(call: Call, write: Write, matches: Sequence[Match], new: Object | None, old: Object | None) -> Validating:
    """The first refusal, in the order of the webhooks; all are asked."""
    hooks: list[tuple[Hook, Asked | Failure | status.ApiError]] = []
    for match in matches:
        concerned = wanted(call, write, match.hook, new, old)
        if isinstance(concerned, status.ApiError):
            return concerned
        if concerned:
            hooks.append((match.hook, ask(call, write, match, new, old)))
    calls = tuple(asked.call for _, asked in hooks if isinstance(asked, Asked))
    came = (yield from answers(call, calls)) if calls else ()
    if isinstance(came, status.ApiError):
        return came
    coming = iter(came)
    refusals: list[status.ApiError] = []
    for hook, asked in hooks:
        result = read(hook, asked.uid, next(coming), mutating=False) if isinstance(asked, Asked) else asked
        refusal = _refusal(call, hook, result)
        if refusal is not None:
            refusals.append(refusal)
    return refusals[0] if refusals else None


def _refusal(call: Call, hook: Hook, result: Verdict | Failure | status.ApiError) -> status.ApiError | None:
    if isinstance(result, Failure):
        return None if hook.ignores_failure else result.error(hook)
    if isinstance(result, status.ApiError):
        return result
    call.warn(*result.warnings)
    return result.refusal
