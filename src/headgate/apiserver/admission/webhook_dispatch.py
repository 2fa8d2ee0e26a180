"""Calls the webhooks that match a write: mutating ones one after the other, validating ones in parallel.

The functions are generators: they yield the calls and get the responses. Other writes may happen meanwhile, which the
caller handles. If a webhook cannot be called or its response is invalid, its ``failurePolicy`` decides. If a webhook
denies the write, the write is refused. If no webhook matches, nothing is yielded.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from headgate.apimachinery import api_errors
from headgate.apiserver.admission.webhook_patch import WebhookPatchResult, apply_webhook_patch
from headgate.apiserver.admission.webhook_request import (
    PreparedWebhookCall,
    WebhookFailure,
    call_webhooks,
    prepare_call,
    read_response,
    selectors_match,
)
from headgate.apiserver.admission.webhook_review import ReviewResult
from headgate.apiserver.request.messages import Effect
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.webhooks.configuration import AdmissionWebhook, Phase
from headgate.apiserver.webhooks.index import WebhookMatch
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite

Object = dict[str, Any]
MutateSteps = Generator[Effect, Any, "Object | api_errors.StatusError | None"]
ValidateSteps = Generator[Effect, Any, "api_errors.StatusError | None"]


class ReinvocationContext:
    """Which mutating webhooks are called a second time.

    A webhook with ``reinvocationPolicy: IfNeeded`` is called again if a later webhook, or a plugin, changed the object.
    """

    def __init__(self) -> None:
        self.is_reinvocation = False
        self.changed = False
        self._last: Object | None = None  # the object after the first round of webhooks
        self._called: set[str] = set()
        self._to_reinvoke: set[str] = set()

    def begin(self, new: Object | None) -> None:
        """A round of webhooks begins. In the second round, plugins may have changed the object before it."""
        if self.is_reinvocation and new != self._last:
            self._require_reinvocation()

    def end(self, new: Object | None) -> None:
        self._last = None if new is None else dict(new)

    def skips(self, hook: AdmissionWebhook) -> bool:
        return self.is_reinvocation and hook.key not in self._to_reinvoke

    def record_call(self, hook: AdmissionWebhook, *, changed: bool) -> None:
        if changed:
            self._require_reinvocation()
            self.changed = True
        if hook.reinvoked:
            self._called.add(hook.key)

    def _require_reinvocation(self) -> None:
        """The object changed, so the webhooks that were called before are called again."""
        self._to_reinvoke |= self._called
        self._called.clear()


def matching(call: RequestContext, phase: Phase, operation: str) -> tuple[WebhookMatch, ...]:
    """The webhooks whose rules match. Selectors are checked before each call."""
    api = call.api
    return api.webhooks.matching(api.store, api.kinds, phase, operation, call.kind, call.info.subresource)


def mutate(
    call: RequestContext,
    write: ReviewedWrite,
    matches: Sequence[WebhookMatch],
    new: Object | None,
    old: Object | None,
    reinvocation: ReinvocationContext,
) -> MutateSteps:
    """``new`` after all webhooks, in the version of the request."""
    reinvocation.begin(new)
    for match in matches:
        matched = selectors_match(call, write, match.hook, new, old)
        if isinstance(matched, api_errors.StatusError):
            return matched
        if not matched or reinvocation.skips(match.hook):
            continue
        patched = yield from _mutate_once(call, write, match, new, old)
        if isinstance(patched, api_errors.StatusError):
            return patched
        if isinstance(patched, WebhookFailure):
            if not match.hook.ignores_failure:
                return patched.error(match.hook)
            patched = WebhookPatchResult(new)
        reinvocation.record_call(match.hook, changed=patched.changed)
        new = patched.obj
    reinvocation.end(new)
    return new


def _mutate_once(
    call: RequestContext, write: ReviewedWrite, match: WebhookMatch, new: Object | None, old: Object | None
) -> Generator[Effect, Any, WebhookPatchResult | WebhookFailure | api_errors.StatusError]:
    prepared = prepare_call(call, write, match, new, old)
    if not isinstance(prepared, PreparedWebhookCall):
        return prepared
    responses = yield from call_webhooks(call, (prepared.call,))
    if isinstance(responses, api_errors.StatusError):
        return responses
    result = read_response(match.hook, prepared.uid, responses[0], mutating=True)
    if isinstance(result, WebhookFailure):
        return result
    call.warn(*result.warnings)
    return result.refusal or apply_webhook_patch(call, write, match, new, result)


def validate(
    call: RequestContext, write: ReviewedWrite, matches: Sequence[WebhookMatch], new: Object | None, old: Object | None
) -> ValidateSteps:
    """The first refusal in the order of the webhooks. All of them are called."""
    hooks: list[tuple[AdmissionWebhook, PreparedWebhookCall | WebhookFailure | api_errors.StatusError]] = []
    for match in matches:
        matched = selectors_match(call, write, match.hook, new, old)
        if isinstance(matched, api_errors.StatusError):
            return matched
        if matched:
            hooks.append((match.hook, prepare_call(call, write, match, new, old)))
    calls = tuple(prepared.call for _, prepared in hooks if isinstance(prepared, PreparedWebhookCall))
    responses = (yield from call_webhooks(call, calls)) if calls else ()
    if isinstance(responses, api_errors.StatusError):
        return responses
    remaining = iter(responses)
    refusals: list[api_errors.StatusError] = []
    for hook, prepared in hooks:
        result = (
            read_response(hook, prepared.uid, next(remaining), mutating=False)
            if isinstance(prepared, PreparedWebhookCall)
            else prepared
        )
        refusal = _refusal(call, hook, result)
        if refusal is not None:
            refusals.append(refusal)
    return refusals[0] if refusals else None


def _refusal(
    call: RequestContext, hook: AdmissionWebhook, result: ReviewResult | WebhookFailure | api_errors.StatusError
) -> api_errors.StatusError | None:
    if isinstance(result, WebhookFailure):
        return None if hook.ignores_failure else result.error(hook)
    if isinstance(result, api_errors.StatusError):
        return result
    call.warn(*result.warnings)
    return result.refusal
