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
from headgate.apiserver.admission.webhook_review import ReviewResult, decode_review, make_review, review_result
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.rows.row import builtin_kind
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.request.messages import CallWebhooks, Effect, WebhookAnswer, WebhookCall
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.webhooks import call_errors
from headgate.apiserver.webhooks.configuration import AdmissionWebhook
from headgate.apiserver.webhooks.index import WebhookMatch
from headgate.apiserver.webhooks.reviewed_write import ReviewedWrite
from headgate.kube import field_errors
from headgate.kube.serializer.json_decoder import has_floats, with_go_numbers

Object = dict[str, Any]

_TIMER_SLACK_S: Final = 0.02  # timers may fire a little early
_TIMEOUT_TEXT: Final = "request did not complete within requested timeout - context deadline exceeded"
_NO_VERSION: Final = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
_NO_NETWORK: Final = "services have no network here: give the webhook a clientConfig.url that the API server can reach"


class PreparedWebhookCall(msgspec.Struct, frozen=True):
    """A call to make, and the uid that its response must repeat."""

    uid: str
    call: WebhookCall


class WebhookFailure(msgspec.Struct, frozen=True):
    reason: str

    def error(self, hook: AdmissionWebhook) -> api_errors.StatusError:
        return api_errors.internal_error(f"failed calling webhook {field_errors.quote(hook.name)}: {self.reason}")


def selectors_match(
    call: RequestContext, write: ReviewedWrite, hook: AdmissionWebhook, new: Object | None, old: Object | None
) -> bool | api_errors.StatusError:
    """Whether the selectors of the webhook match the namespace, and the old or the new object."""
    is_namespace = write.kind.plural == "namespaces"
    if not hook.namespaces.is_everything and (write.namespace or is_namespace):
        if is_namespace and not write.subresource and new is not None:
            labels = new["metadata"].get("labels")
        else:
            item = call.api.store.read_applied("namespaces", "", write.namespace)
            if item is None:
                return api_errors.not_found(api_errors.GroupResource("", "namespaces"), write.namespace)
            labels = item.labels
        if not hook.namespaces.matches(labels):
            return False
    if hook.objects.is_everything:
        return True
    return any(obj is not None and hook.objects.matches(obj["metadata"].get("labels")) for obj in (new, old))


def prepare_call(
    call: RequestContext, write: ReviewedWrite, match: WebhookMatch, new: Object | None, old: Object | None
) -> PreparedWebhookCall | WebhookFailure | api_errors.StatusError:
    hook = match.hook
    if write.dry_run and not hook.dry_runs:
        return api_errors.bad_request(f"admission webhook {field_errors.quote(hook.name)} does not support dry run")
    if not hook.review_version:
        return WebhookFailure(f"could not create admission objects: {_NO_VERSION}")
    limit_s = min(float(hook.timeout_s), call.time_left_s)
    if limit_s <= 0:
        return _timeout_error(call)
    url = f"{hook.url}?timeout={math.ceil(limit_s)}s"
    if hook.service is not None:
        found = call.api.store.read_applied("services", hook.service.namespace, hook.service.name) is not None
        problem = _NO_NETWORK if found else f"service {field_errors.quote(hook.service.name)} not found"
        return WebhookFailure(f'failed to call webhook: Post "{url}": {problem}')
    uid = call.moment.new_uid()
    objects = [None if obj is None else webhook_object(call, write, match.kind, obj) for obj in (new, old)]
    body = body_kind(call, match.kind, write.subresource)
    review = make_review(hook.review_version, uid, write, match.kind, body, *objects)
    return PreparedWebhookCall(uid, WebhookCall(url, review, limit_s, hook.ca_bundle))


def body_kind(call: RequestContext, kind: ServedKind, subresource: str) -> ServedKind:
    """The kind of the body of a request to this endpoint."""
    sub = kind.subresource(subresource) if subresource else None
    if sub is None or sub.kind == kind.kind:
        return kind
    return call.api.kinds.by_gvk(sub.gvk) or builtin_kind(
        sub.gvk.api_version, sub.kind, f"{sub.kind.lower()}s", "Namespaced"
    )


def webhook_object(call: RequestContext, write: ReviewedWrite, kind: ServedKind, obj: Object) -> Object:
    """``obj`` in the version for the webhook."""
    body = body_kind(call, kind, write.subresource)
    wire = stored_objects.wire_form(
        call.api, body, stored_objects.converted(write.kind, kind, obj) if body is kind else obj
    )
    return with_go_numbers(wire) if kind.scheme is not None and has_floats(wire) else wire


def call_webhooks(
    call: RequestContext, calls: tuple[WebhookCall, ...]
) -> Generator[Effect, Any, Sequence[WebhookAnswer] | api_errors.StatusError]:
    """Makes the calls, and subtracts their duration from the time limit of the request."""
    responses: Sequence[WebhookAnswer] = yield CallWebhooks(calls)
    call.add_waited(max(response.took_s for response in responses))
    return responses if call.time_left_s > _TIMER_SLACK_S else _timeout_error(call)


def _timeout_error(call: RequestContext) -> api_errors.StatusError:
    return api_errors.request_deadline_exceeded() if call.query.get("timeout") else api_errors.timeout(_TIMEOUT_TEXT)


def read_response(
    hook: AdmissionWebhook, uid: str, response: WebhookAnswer, *, mutating: bool
) -> ReviewResult | WebhookFailure:
    if response.no_client:
        return WebhookFailure(f"could not get REST client: {response.no_client}")
    review = call_errors.failure(response) or decode_review(hook.review_version, response.body)
    if isinstance(review, str):
        return WebhookFailure(f"failed to call webhook: {review}")
    result = review_result(review, hook.review_version, uid, hook.name, mutating=mutating)
    return WebhookFailure(f"received invalid webhook response: {result}") if isinstance(result, str) else result
