"""Conversion between versions by a webhook (``spec.conversion.strategy: Webhook``).

Pure code converts in the middle of a request, where it cannot wait. It calls a :class:`Conversions`, which has the
responses of the webhook to this request so far. A missing conversion raises :class:`ConversionRequired`;
``apiserver/handler.py`` (or ``apiserver/io/api_server.py``, for a watch) calls the webhook and runs the request again.
Nothing is staged before all conversions are known, so the repetition has no side effects.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.apply.manager_names import format_kind, stated_kind
from headgate.apimachinery.codec import codec
from headgate.apimachinery.structural.defaulting import copy
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request.messages import CallWebhooks, Effect, Moment, WebhookAnswer, WebhookCall
from headgate.apiserver.webhooks import call_errors
from headgate.apiserver.webhooks.configuration import clean_url, decode_bundle, service_url
from headgate.kube import field_errors
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.object_meta import validate_annotations

Object = dict[str, Any]

TIMEOUT_S: Final = 30.0
_VERSIONS: Final = ("v1", "v1beta1")
_NO_NETWORK: Final = "services have no network here: give the webhook a clientConfig.url that the API server can reach"
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_ABSENT: Final = object()
_CONVERTED_METADATA: Final = ("labels", "annotations")
_TOLD_METADATA: Final = ("name", "namespace", "uid", *_CONVERTED_METADATA)


class ConversionWebhook(msgspec.Struct, frozen=True):
    url: str
    is_service: bool
    ca_bundle: bytes
    review_version: str


class ConversionRequired(Exception):
    """Some objects are needed in a version that no webhook has been asked for yet. Never leaves the server."""

    def __init__(self, objects: Sequence[Object], api_version: str) -> None:
        super().__init__(api_version)
        self.objects: Final = objects
        self.api_version: Final = api_version


class ConversionWebhookFailed(Exception):
    """The webhook was called, and its response cannot be used. Never leaves the server."""


def read_webhook(spec: Object) -> ConversionWebhook | None:
    """The webhook of a definition that converts by one."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    webhook = conversion.get("webhook") or {}
    client = webhook.get("clientConfig") or {}
    service = client.get("service")
    known = (each for each in webhook.get("conversionReviewVersions") or () if each in _VERSIONS)
    return ConversionWebhook(
        url=service_url(service) if service else clean_url(client.get("url") or ""),
        is_service=service is not None,
        ca_bundle=decode_bundle(client.get("caBundle") or ""),
        review_version=next(known, ""),
    )


class Conversions:
    """What one webhook has answered to one request, or to one watch."""

    def __init__(self, webhook: ConversionWebhook, moment: Moment) -> None:
        self._webhook: Final = webhook
        self._moment: Final = moment
        self._known: dict[tuple[bytes, str], Object | str] = {}
        self._uid = ""

    def convert(self, obj: Object, api_version: str) -> Object:
        """``obj`` in another version; the caller owns what it gets."""
        if obj.get("apiVersion") == api_version:
            return obj
        if len(obj) == 2 and "kind" in obj and "apiVersion" in obj:
            return {**obj, "apiVersion": api_version}
        known = self._known.get(_key(obj, api_version))
        if known is None:
            raise ConversionRequired([obj], api_version)
        if isinstance(known, str):
            raise ConversionWebhookFailed(known)
        told = known["metadata"]
        metadata = {name: value for name, value in obj["metadata"].items() if name not in _CONVERTED_METADATA}
        metadata |= {name: told[name] for name in _CONVERTED_METADATA if name in told}
        return {**copy(known), "metadata": metadata}

    def bound(self, kind: ServedKind) -> ServedKind:
        """``kind`` as this request sees it."""
        form = kind.scheme
        if form is None or form.bind is None:
            return kind
        return msgspec.structs.replace(kind, scheme=form.bind(self.convert))

    def fetch(self, need: ConversionRequired) -> Generator[Effect, Any, None]:
        call = self.request(need)
        if call is not None:
            answers = yield CallWebhooks((call,))
            self.learn(need, answers[0])

    def forget(self) -> None:
        """For a watch, which would remember for ever."""
        self._known.clear()

    def request(self, need: ConversionRequired) -> WebhookCall | None:
        """The call to make; None if none can be made, which is then known."""
        webhook = self._webhook
        url = f"{webhook.url}?timeout={int(TIMEOUT_S)}s"
        if webhook.is_service or not webhook.review_version:
            unheard = "no supported conversion review versions"
            self._fail(need, f'Post "{url}": {_NO_NETWORK}' if webhook.is_service else unheard)
            return None
        self._uid = self._moment.new_uid()
        asked = {"uid": self._uid, "desiredAPIVersion": need.api_version, "objects": need.objects}
        empty: Object = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{webhook.review_version}",
            "request": asked,
            "response": empty,
        }
        return WebhookCall(url, _encode(review), TIMEOUT_S, webhook.ca_bundle)

    def learn(self, need: ConversionRequired, answer: WebhookAnswer) -> None:
        problem = answer.no_client or call_errors.failure(answer)
        converted = problem or self._read(answer.body)
        if isinstance(converted, str):
            self._fail(need, converted)
            return
        if len(converted) != len(need.objects):
            self._fail(need, f"returned {len(converted)} objects, expected {len(need.objects)}", failed=False)
            return
        for original, made in zip(need.objects, converted, strict=True):
            result = _checked(original, made, need.api_version)
            if isinstance(result, str):
                result = f"conversion webhook for {format_kind(stated_kind(original))} {result}"
            self._known[_key(original, need.api_version)] = result

    def _fail(self, need: ConversionRequired, problem: str, *, failed: bool = True) -> None:
        for original in need.objects:
            words = f"failed: {problem}" if failed else problem
            text = f"conversion webhook for {format_kind(stated_kind(original))} {words}"
            self._known[_key(original, need.api_version)] = text

    def _read(self, body: bytes) -> list[Any] | str:
        """The converted objects of a review, or why there are none."""
        parsed = codec.decode_json(body)  # which bounds the depth, too: what is converted is copied and compared
        if parsed.error is not None:
            return parsed.error
        review = parsed.value
        if not isinstance(review, dict):
            return "the answer is not an object"
        wanted = f"apiextensions.k8s.io/{self._webhook.review_version}, Kind=ConversionReview"
        found = format_kind(stated_kind(review))
        if found != wanted:
            return f"expected webhook response of {wanted}, got {found}"
        response = review.get("response")
        if not isinstance(response, dict):
            return "no response provided"
        if self._webhook.review_version == "v1" and response.get("uid") != self._uid:
            got = field_errors.quote(str(response.get("uid") or ""))
            return f"expected response.uid={field_errors.quote(self._uid)}, got {got}"
        result = response.get("result") or {}
        if not isinstance(result, dict) or not isinstance(result.get("message", ""), str):
            return "response.result is not a Status"
        if result.get("status") != "Success":
            return result.get("message") or f"response.result.status was '{result.get('status', '')}', not 'Success'"
        converted = response.get("convertedObjects") or []
        return converted if isinstance(converted, list) else "response.convertedObjects is not a list"


def _key(obj: Object, api_version: str) -> tuple[bytes, str]:
    """Objects that differ in nothing that a webhook may change are converted once."""
    metadata = obj.get("metadata") or {}
    told = {name: metadata[name] for name in _TOLD_METADATA if name in metadata}
    return _encode({**obj, "metadata": told}), api_version


def _checked(original: Object, made: Any, api_version: str) -> Object | str:
    """A converted object with the metadata that a webhook may not touch put back, or what is wrong with it."""
    prefix = "returned invalid object at index 0: invalid"
    if not isinstance(made, dict):
        return f"{prefix} type"
    if made.get("apiVersion") != api_version:
        return f"{prefix} groupVersion (expected {api_version}, received {made.get('apiVersion')})"
    if made.get("kind") != original.get("kind"):
        return f"{prefix} kind (expected {original.get('kind')}, received {made.get('kind')})"
    before, after = original.get("metadata") or {}, made.get("metadata", _ABSENT)
    if after is _ABSENT:
        return "returned invalid metadata: missing metadata in converted object"
    if not isinstance(after, dict):
        return "returned invalid metadata: invalid metadata in converted object"
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if before.get(field, "") != after.get(field, ""):
            return (
                f"returned invalid object: must have the same {word}: {before.get(field, '')} != {after.get(field, '')}"
            )
    return _with_labels(before, after, made)


def _with_labels(before: Object, after: Object, made: Object) -> Object | str:
    metadata = {name: value for name, value in before.items() if name not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        given = after.get(field)
        if given is None:
            continue
        if not isinstance(given, dict):
            return f"returned invalid metadata: invalid metadata.{field} in converted object"
        for key, value in given.items():
            if not isinstance(value, str):
                return f"returned invalid metadata: metadata.{field}[{key}] must be a string in converted object"
        if given != before.get(field):
            rule = validate_labels if field == "labels" else validate_annotations
            problems = rule(given, f"metadata.{'labels' if field == 'labels' else 'annotation'}")
            if problems:
                return f"returned invalid metadata: {field_errors.aggregate(problems)}"
        metadata[field] = given
    return {**made, "metadata": metadata}


class MomentReplay:
    """The random draws of a moment, made once: a repeated run gets the same ones."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._drawn: list[Any] = []

    def again(self) -> Moment:
        """The moment from its beginning."""
        at = 0

        def next_or(draw: Any) -> Any:
            nonlocal at
            if at == len(self._drawn):
                self._drawn.append(draw())
            at += 1
            return self._drawn[at - 1]

        moment = self._moment
        return Moment(
            moment.epoch_s,
            lambda: next_or(moment.new_uid),
            lambda: next_or(moment.new_suffix),
            lambda limit: next_or(lambda: moment.draw(limit)),
        )
