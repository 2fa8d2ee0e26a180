"""Conversion between versions of custom objects by a webhook (``spec.conversion.strategy: Webhook``).

The code of a request does no I/O and cannot wait for a webhook in the middle of a conversion. It calls
:meth:`Conversions.convert`, which has the responses of the webhook to this request so far. If a conversion is missing,
it raises :class:`ConversionRequired`; ``apiserver/handler.py`` (for a watch, ``apiserver/io/api_server.py``) then calls
the webhook and runs the request again. Nothing is staged before all conversions are known, so the repetition has no
side effects.
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
_VISIBLE_METADATA: Final = ("name", "namespace", "uid", *_CONVERTED_METADATA)


class ConversionWebhook(msgspec.Struct, frozen=True):
    url: str
    is_service: bool
    ca_bundle: bytes
    review_version: str


class ConversionRequired(Exception):
    """Some objects are needed in a version that was not requested from the webhook yet. Never leaves the server."""

    def __init__(self, objects: Sequence[Object], api_version: str) -> None:
        super().__init__(api_version)
        self.objects: Final = objects
        self.api_version: Final = api_version


class ConversionWebhookFailed(Exception):
    """The webhook was called, and its response cannot be used. Never leaves the server."""


def read_webhook(spec: Object) -> ConversionWebhook | None:
    """The conversion webhook in the spec of a CustomResourceDefinition; None if it has none."""
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
    """The responses of one webhook for one request or one watch."""

    def __init__(self, webhook: ConversionWebhook, moment: Moment) -> None:
        self._webhook: Final = webhook
        self._moment: Final = moment
        self._results: dict[tuple[bytes, str], Object | str] = {}
        self._uid = ""

    def convert(self, obj: Object, api_version: str) -> Object:
        """``obj`` in another version. The caller may change the result."""
        if obj.get("apiVersion") == api_version:
            return obj
        if len(obj) == 2 and "kind" in obj and "apiVersion" in obj:
            return {**obj, "apiVersion": api_version}  # an object without any field needs no webhook
        result = self._results.get(_key(obj, api_version))
        if result is None:
            raise ConversionRequired([obj], api_version)
        if isinstance(result, str):
            raise ConversionWebhookFailed(result)
        converted_metadata = result["metadata"]
        metadata = {name: value for name, value in obj["metadata"].items() if name not in _CONVERTED_METADATA}
        metadata |= {name: converted_metadata[name] for name in _CONVERTED_METADATA if name in converted_metadata}
        return {**copy(result), "metadata": metadata}

    def bind(self, kind: ServedKind) -> ServedKind:
        """``kind`` with the conversions of this request."""
        scheme = kind.scheme
        if scheme is None or scheme.bind is None:
            return kind
        return msgspec.structs.replace(kind, scheme=scheme.bind(self.convert))

    def fetch(self, required: ConversionRequired) -> Generator[Effect, Any, None]:
        call = self.request(required)
        if call is not None:
            responses = yield CallWebhooks((call,))
            self.record(required, responses[0])

    def forget(self) -> None:
        """Clears the results: a watch would keep them without end."""
        self._results.clear()

    def request(self, required: ConversionRequired) -> WebhookCall | None:
        """The call of the webhook; None if it cannot be called, which is recorded as a failed conversion."""
        webhook = self._webhook
        url = f"{webhook.url}?timeout={int(TIMEOUT_S)}s"
        if webhook.is_service or not webhook.review_version:
            no_version = "no supported conversion review versions"
            self._fail(required, f'Post "{url}": {_NO_NETWORK}' if webhook.is_service else no_version)
            return None
        self._uid = self._moment.new_uid()
        request = {"uid": self._uid, "desiredAPIVersion": required.api_version, "objects": required.objects}
        empty: Object = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{webhook.review_version}",
            "request": request,
            "response": empty,
        }
        return WebhookCall(url, _encode(review), TIMEOUT_S, webhook.ca_bundle)

    def record(self, required: ConversionRequired, response: WebhookAnswer) -> None:
        """Stores the converted objects of the response, or its error for each of the objects."""
        problem = response.no_client or call_errors.failure(response)
        converted = problem or self._read(response.body)
        if isinstance(converted, str):
            self._fail(required, converted)
            return
        if len(converted) != len(required.objects):
            self._fail(required, f"returned {len(converted)} objects, expected {len(required.objects)}", failed=False)
            return
        for original, converted_object in zip(required.objects, converted, strict=True):
            result = _checked(original, converted_object, required.api_version)
            if isinstance(result, str):
                result = f"conversion webhook for {format_kind(stated_kind(original))} {result}"
            self._results[_key(original, required.api_version)] = result

    def _fail(self, required: ConversionRequired, problem: str, *, failed: bool = True) -> None:
        for original in required.objects:
            words = f"failed: {problem}" if failed else problem
            text = f"conversion webhook for {format_kind(stated_kind(original))} {words}"
            self._results[_key(original, required.api_version)] = text

    def _read(self, body: bytes) -> list[Any] | str:
        """The converted objects of a ConversionReview; a ``str`` is the problem of the response."""
        parsed = codec.decode_json(body)  # it also limits the depth, because converted objects are copied and compared
        if parsed.error is not None:
            return parsed.error
        review = parsed.value
        if not isinstance(review, dict):
            return "the response is not an object"
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
    """Objects that are equal in all fields that a webhook may change have the same key."""
    metadata = obj.get("metadata") or {}
    visible = {name: metadata[name] for name in _VISIBLE_METADATA if name in metadata}
    return _encode({**obj, "metadata": visible}), api_version


def _checked(original: Object, converted_object: Any, api_version: str) -> Object | str:
    """A converted object with the original metadata that a webhook may not change; a ``str`` is the problem."""
    prefix = "returned invalid object at index 0: invalid"
    if not isinstance(converted_object, dict):
        return f"{prefix} type"
    if converted_object.get("apiVersion") != api_version:
        return f"{prefix} groupVersion (expected {api_version}, received {converted_object.get('apiVersion')})"
    if converted_object.get("kind") != original.get("kind"):
        return f"{prefix} kind (expected {original.get('kind')}, received {converted_object.get('kind')})"
    before, after = original.get("metadata") or {}, converted_object.get("metadata", _ABSENT)
    if after is _ABSENT:
        return "returned invalid metadata: missing metadata in converted object"
    if not isinstance(after, dict):
        return "returned invalid metadata: invalid metadata in converted object"
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if before.get(field, "") != after.get(field, ""):
            return (
                f"returned invalid object: must have the same {word}: {before.get(field, '')} != {after.get(field, '')}"
            )
    return _with_labels(before, after, converted_object)


def _with_labels(before: Object, after: Object, converted_object: Object) -> Object | str:
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
    return {**converted_object, "metadata": metadata}


class MomentReplay:
    """Records the uids and random numbers that a request has used, so that its repetition gets the same ones."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._drawn: list[Any] = []

    def restart(self) -> Moment:
        """A moment whose uids and random numbers are the recorded ones, from the first, and then new ones."""
        index = 0

        def next_draw(draw: Any) -> Any:
            nonlocal index
            if index == len(self._drawn):
                self._drawn.append(draw())
            index += 1
            return self._drawn[index - 1]

        moment = self._moment
        return Moment(
            moment.epoch_s,
            lambda: next_draw(moment.new_uid),
            lambda: next_draw(moment.new_suffix),
            lambda limit: next_draw(lambda: moment.randrange(limit)),
        )
