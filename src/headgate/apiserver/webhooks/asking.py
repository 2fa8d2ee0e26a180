"""Asking one webhook: whether its selectors want the write, the call to make, and what the answer comes to.

A :class:`Failure` is a webhook that could not be asked or whose answer does not count; what then happens is said by
its ``failurePolicy``, and done in ``dispatch.py``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from headgate.apiserver import records
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.kinds.rows.row import row
from headgate.apiserver.messages import CallWebhooks, Effect, WebhookAnswer, WebhookCall
from headgate.apiserver.webhooks import transport
from headgate.apiserver.webhooks.hook import Hook
from headgate.apiserver.webhooks.index import Match
from headgate.apiserver.webhooks.review import Verdict, decode_answer, judge, make_review
from headgate.apiserver.webhooks.write import Write
from headgate.kube import errors, status

Object = dict[str, Any]

_EARLY_S: Final = 0.02  # timers may ring a little before their time
_NO_TIME: Final = "request did not complete within requested timeout - context deadline exceeded"
_NO_VERSION: Final = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
_NO_NETWORK: Final = "services have no network here: give the webhook a clientConfig.url that the API server can reach"


class Asked(msgspec.Struct, frozen=True):
    """A call to make, and the uid that its answer must repeat."""

    uid: str
    call: WebhookCall


class Failure(msgspec.Struct, frozen=True):
    reason: str

    def error(self, hook: Hook) -> status.ApiError:
        return status.internal_error(f"failed calling webhook {errors.quote(hook.name)}: {self.reason}")


def wanted(call: Call, write: Write, hook: Hook, new: Object | None, old: Object | None) -> bool | status.ApiError:
    """Whether the namespace and the object, as it was or as it will be, carry the labels that the webhook asks for."""
    about_namespace = write.kind.plural == "namespaces"
    if not hook.namespaces.is_everything and (write.namespace or about_namespace):
        if about_namespace and not write.subresource and new is not None:
            labels = new["metadata"].get("labels")
        else:
            item = call.api.store.peek("namespaces", "", write.namespace)
            if item is None:
                return status.not_found(status.GroupResource("", "namespaces"), write.namespace)
            labels = item.labels
        if not hook.namespaces.matches(labels):
            return False
    if hook.objects.is_everything:
        return True
    return any(obj is not None and hook.objects.matches(obj["metadata"].get("labels")) for obj in (new, old))


def ask(
    call: Call, write: Write, match: Match, new: Object | None, old: Object | None
) -> Asked | Failure | status.ApiError:
    hook = match.hook
    if write.dry_run and not hook.dry_runs:
        return status.bad_request(f"admission webhook {errors.quote(hook.name)} does not support dry run")
    if not hook.review_version:
        return Failure(f"could not create admission objects: {_NO_VERSION}")
    limit_s = min(float(hook.timeout_s), call.time_left_s)
    if limit_s <= 0:
        return _no_time(call)
    url = f"{hook.url}?timeout={math.ceil(limit_s)}s"
    if hook.service is not None:
        found = call.api.store.peek("services", hook.service.namespace, hook.service.name) is not None
        problem = _NO_NETWORK if found else f"service {errors.quote(hook.service.name)} not found"
        return Failure(f'failed to call webhook: Post "{url}": {problem}')
    uid = call.moment.new_uid()
    shown = [None if obj is None else printed(call, write, match.view, obj) for obj in (new, old)]
    body = body_kind(call, match.view, write.subresource)
    review = make_review(hook.review_version, uid, write, match.view, body, *shown)
    return Asked(uid, WebhookCall(url, review, limit_s, hook.ca_bundle))


def body_kind(call: Call, view: Kind, subresource: str) -> Kind:
    """What the body of a request to this endpoint is."""
    sub = view.subresource(subresource) if subresource else None
    if sub is None or sub.kind == view.kind:
        return view
    return call.api.kinds.by_gvk(sub.gvk) or row(sub.gvk.api_version, sub.kind, f"{sub.kind.lower()}s", "Namespaced")


def printed(call: Call, write: Write, view: Kind, obj: Object) -> Object:
    """``obj`` as the webhook wants to see it."""
    body = body_kind(call, view, write.subresource)
    return records.tidy(call.api, body, records.moved(write.kind, view, obj) if body is view else obj)


def answers(
    call: Call, calls: tuple[WebhookCall, ...]
) -> Generator[Effect, Any, Sequence[WebhookAnswer] | status.ApiError]:
    """Make the calls. The time that they take is taken from the request's."""
    came: Sequence[WebhookAnswer] = yield CallWebhooks(calls)
    call.wait(max(answer.took_s for answer in came))
    return came if call.time_left_s > _EARLY_S else _no_time(call)


def _no_time(call: Call) -> status.ApiError:
    return status.allotted_time_over() if call.query.get("timeout") else status.timeout(_NO_TIME)


def read(hook: Hook, uid: str, answer: WebhookAnswer, *, mutating: bool) -> Verdict | Failure:
    if answer.no_client:
        return Failure(f"could not get REST client: {answer.no_client}")
    review = transport.failure(answer) or decode_answer(hook.review_version, answer.body)
    if isinstance(review, str):
        return Failure(f"failed to call webhook: {review}")
    verdict = judge(review, hook.review_version, uid, hook.name, mutating=mutating)
    return Failure(f"received invalid webhook response: {verdict}") if isinstance(verdict, str) else verdict
