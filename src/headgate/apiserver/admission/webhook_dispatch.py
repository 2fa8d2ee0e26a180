"""Calls the webhooks that match a write: mutating ones one after the other, validating ones in parallel.

A generator yields the calls and is sent the responses; other writes go on meanwhile, and the caller handles that. The
``failurePolicy`` of a webhook decides when it cannot be called or its response is invalid; a webhook that denies ends
the write. If no webhook matches, nothing is yielded.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from headgate.apimachinery import api_errors
from headgate.apiserver.admission.webhook_patch import WebhookPatchResult, mutated
from headgate.apiserver.admission.webhook_request import (
    PreparedWebhookCall,
    WebhookFailure,
    call_webhooks,
    prepare_call,
    read_answer,
    selectors_match,
)
from headgate.apiserver.admission.webhook_review import ReviewResult
from headgate.apiserver.call import Call
from headgate.apiserver.request.messages import Effect
from headgate.apiserver.webhooks.configuration import AdmissionWebhook, Phase
from headgate.apiserver.webhooks.index import WebhookMatch
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite

Object = dict[str, Any]
Mutating = Generator[Effect, Any, "Object | api_errors.StatusError | None"]
Validating = Generator[Effect, Any, "api_errors.StatusError | None"]


class ReinvocationContext:
    """Mutating webhooks may be called twice: those with a reinvocation policy, if a later one changed the object."""

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

    def skips(self, hook: AdmissionWebhook) -> bool:
        return self.second and hook.key not in self._again

    def note(self, hook: AdmissionWebhook, *, changed: bool) -> None:
        if changed:
            self._require()
            self.changed = True
        if hook.reinvoked:
            self._asked.add(hook.key)

    def _require(self) -> None:
        """The object changed: who was asked before is asked again."""
        self._again |= self._asked
        self._asked.clear()


def matching(call: Call, phase: Phase, operation: str) -> tuple[WebhookMatch, ...]:
    """What the rules say; selectors are asked when a webhook's turn comes."""
    api = call.api
    return api.webhooks.matching(api.store, api.kinds, phase, operation, call.kind, call.info.subresource)


def mutate(
    call: Call,
    write: ReviewedWrite,
    matches: Sequence[WebhookMatch],
    new: Object | None,
    old: Object | None,
    rounds: ReinvocationContext,
) -> Mutating:
    """``new`` as the webhooks leave it, as an object of the version of the request."""
    rounds.begin(new)
    for match in matches:
        concerned = selectors_match(call, write, match.hook, new, old)
        if isinstance(concerned, api_errors.StatusError):
            return concerned
        if not concerned or rounds.skips(match.hook):
            continue
        made = yield from _mutate_once(call, write, match, new, old)
        if isinstance(made, api_errors.StatusError):
            return made
        if isinstance(made, WebhookFailure):
            if not match.hook.ignores_failure:
                return made.error(match.hook)
            made = WebhookPatchResult(new)
        rounds.note(match.hook, changed=made.changed)
        new = made.obj
    rounds.end(new)
    return new


def _mutate_once(
    call: Call, write: ReviewedWrite, match: WebhookMatch, new: Object | None, old: Object | None
) -> Generator[Effect, Any, WebhookPatchResult | WebhookFailure | api_errors.StatusError]:
    asked = prepare_call(call, write, match, new, old)
    if not isinstance(asked, PreparedWebhookCall):
        return asked
    came = yield from call_webhooks(call, (asked.call,))
    if isinstance(came, api_errors.StatusError):
        return came
    verdict = read_answer(match.hook, asked.uid, came[0], mutating=True)
    if isinstance(verdict, WebhookFailure):
        return verdict
    call.warn(*verdict.warnings)
    return verdict.refusal or mutated(call, write, match, new, verdict)


def validate(
    call: Call, write: ReviewedWrite, matches: Sequence[WebhookMatch], new: Object | None, old: Object | None
) -> Validating:
    """The first refusal, in the order of the webhooks; all are asked."""
    hooks: list[tuple[AdmissionWebhook, PreparedWebhookCall | WebhookFailure | api_errors.StatusError]] = []
    for match in matches:
        concerned = selectors_match(call, write, match.hook, new, old)
        if isinstance(concerned, api_errors.StatusError):
            return concerned
        if concerned:
            hooks.append((match.hook, prepare_call(call, write, match, new, old)))
    calls = tuple(asked.call for _, asked in hooks if isinstance(asked, PreparedWebhookCall))
    came = (yield from call_webhooks(call, calls)) if calls else ()
    if isinstance(came, api_errors.StatusError):
        return came
    coming = iter(came)
    refusals: list[api_errors.StatusError] = []
    for hook, asked in hooks:
        result = (
            read_answer(hook, asked.uid, next(coming), mutating=False)
            if isinstance(asked, PreparedWebhookCall)
            else asked
        )
        refusal = _refusal(call, hook, result)
        if refusal is not None:
            refusals.append(refusal)
    return refusals[0] if refusals else None


def _refusal(
    call: Call, hook: AdmissionWebhook, result: ReviewResult | WebhookFailure | api_errors.StatusError
) -> api_errors.StatusError | None:
    if isinstance(result, WebhookFailure):
        return None if hook.ignores_failure else result.error(hook)
    if isinstance(result, api_errors.StatusError):
        return result
    call.warn(*result.warnings)
    return result.refusal
