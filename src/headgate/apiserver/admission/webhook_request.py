"""One webhook call: whether its selectors match the write, the call to make, and the meaning of the response.

A :class:`WebhookFailure` is a webhook that could not be called or whose response is invalid. ``webhook_dispatch.py``
applies its ``failurePolicy``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.admission.webhook_review import ReviewResult, decode_answer, make_review, review_result
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.rows.row import row
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.request.messages import CallWebhooks, Effect, WebhookAnswer, WebhookCall
from headgate.apiserver.webhooks import call_errors
from headgate.apiserver.webhooks.configuration import AdmissionWebhook
from headgate.apiserver.webhooks.index import WebhookMatch
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite
from headgate.kube import field_errors

Object = dict[str, Any]

_EARLY_S: Final = 0.02  # timers may ring a little before their time
_NO_TIME: Final = "request did not complete within requested timeout - context deadline exceeded"
_NO_VERSION: Final = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
_NO_NETWORK: Final = "services have no network here: give the webhook a clientConfig.url that the API server can reach"


class PreparedWebhookCall(msgspec.Struct, frozen=True):
    """A call to make, and the uid that its answer must repeat."""

    uid: str
    call: WebhookCall


class WebhookFailure(msgspec.Struct, frozen=True):
    reason: str

    def error(self, hook: AdmissionWebhook) -> api_errors.StatusError:
        return api_errors.internal_error(f"failed calling webhook {field_errors.quote(hook.name)}: {self.reason}")


def selectors_match(
    call: Call, write: ReviewedWrite, hook: AdmissionWebhook, new: Object | None, old: Object | None
) -> bool | api_errors.StatusError:
    """Whether the namespace and the object, as it was or as it will be, carry the labels that the webhook asks for."""
    about_namespace = write.kind.plural == "namespaces"
    if not hook.namespaces.is_everything and (write.namespace or about_namespace):
        if about_namespace and not write.subresource and new is not None:
            labels = new["metadata"].get("labels")
        else:
            item = call.api.store.peek("namespaces", "", write.namespace)
            if item is None:
                return api_errors.not_found(api_errors.GroupResource("", "namespaces"), write.namespace)
            labels = item.labels
        if not hook.namespaces.matches(labels):
            return False
    if hook.objects.is_everything:
        return True
    return any(obj is not None and hook.objects.matches(obj["metadata"].get("labels")) for obj in (new, old))


def prepare_call(
    call: Call, write: ReviewedWrite, match: WebhookMatch, new: Object | None, old: Object | None
) -> PreparedWebhookCall | WebhookFailure | api_errors.StatusError:
    hook = match.hook
    if write.dry_run and not hook.dry_runs:
        return api_errors.bad_request(f"admission webhook {field_errors.quote(hook.name)} does not support dry run")
    if not hook.review_version:
        return WebhookFailure(f"could not create admission objects: {_NO_VERSION}")
    limit_s = min(float(hook.timeout_s), call.time_left_s)
    if limit_s <= 0:
        return _no_time(call)
    url = f"{hook.url}?timeout={math.ceil(limit_s)}s"
    if hook.service is not None:
        found = call.api.store.peek("services", hook.service.namespace, hook.service.name) is not None
        problem = _NO_NETWORK if found else f"service {field_errors.quote(hook.service.name)} not found"
        return WebhookFailure(f'failed to call webhook: Post "{url}": {problem}')
    uid = call.moment.new_uid()
    shown = [None if obj is None else printed(call, write, match.view, obj) for obj in (new, old)]
    body = body_kind(call, match.view, write.subresource)
    review = make_review(hook.review_version, uid, write, match.view, body, *shown)
    return PreparedWebhookCall(uid, WebhookCall(url, review, limit_s, hook.ca_bundle))


def body_kind(call: Call, view: ServedKind, subresource: str) -> ServedKind:
    """What the body of a request to this endpoint is."""
    sub = view.subresource(subresource) if subresource else None
    if sub is None or sub.kind == view.kind:
        return view
    return call.api.kinds.by_gvk(sub.gvk) or row(sub.gvk.api_version, sub.kind, f"{sub.kind.lower()}s", "Namespaced")


def printed(call: Call, write: ReviewedWrite, view: ServedKind, obj: Object) -> Object:
    """``obj`` as the webhook wants to see it."""
    body = body_kind(call, view, write.subresource)
    return stored_objects.canonical(
        call.api, body, stored_objects.converted(write.kind, view, obj) if body is view else obj
    )


def call_webhooks(
    call: Call, calls: tuple[WebhookCall, ...]
) -> Generator[Effect, Any, Sequence[WebhookAnswer] | api_errors.StatusError]:
    """Make the calls. The time that they take is taken from the request's."""
    came: Sequence[WebhookAnswer] = yield CallWebhooks(calls)
    call.wait(max(answer.took_s for answer in came))
    return came if call.time_left_s > _EARLY_S else _no_time(call)


def _no_time(call: Call) -> api_errors.StatusError:
    return api_errors.request_deadline_exceeded() if call.query.get("timeout") else api_errors.timeout(_NO_TIME)


def read_answer(
    hook: AdmissionWebhook, uid: str, answer: WebhookAnswer, *, mutating: bool
) -> ReviewResult | WebhookFailure:
    if answer.no_client:
        return WebhookFailure(f"could not get REST client: {answer.no_client}")
    review = call_errors.failure(answer) or decode_answer(hook.review_version, answer.body)
    if isinstance(review, str):
        return WebhookFailure(f"failed to call webhook: {review}")
    verdict = review_result(review, hook.review_version, uid, hook.name, mutating=mutating)
    return WebhookFailure(f"received invalid webhook response: {verdict}") if isinstance(verdict, str) else verdict
