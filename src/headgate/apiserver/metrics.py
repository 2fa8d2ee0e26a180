"""Metrics of the embedded API server: requests, watches, stored objects and commits.

If kube-apiserver has the same metric, its name, labels and buckets are used. A resource is a label only if the server
serves it, because the path of a request can contain any text. ``apiserver/io/api_server.py`` and
``store/io/committer.py`` report, and ``headgate up --metrics-listen`` serves the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request.request_info import RequestInfo
from headgate.kube.metrics import HistogramVec, MetricFamily, Sample, exponential_buckets, exposition_text
from headgate.store import Store

_REQUESTS: Final = "apiserver_request_total"
_DURATION: Final = "apiserver_request_duration_seconds"
_LONG_RUNNING: Final = "apiserver_longrunning_requests"
_OBJECTS: Final = "apiserver_resource_objects"
_SIZE: Final = "apiserver_storage_size_bytes"
_COMMIT: Final = "headgate_store_commit_duration_seconds"
_COMMITTED: Final = "headgate_store_committed_changes_total"
_FAILED: Final = "headgate_store_failed_commits_total"
_HISTORY: Final = "headgate_store_history_bytes"
_REVISION: Final = "headgate_store_revision"
_LABELS: Final = ("verb", "group", "version", "resource", "subresource", "scope")

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _REQUESTS: MetricFamily(
        "counter", "Requests to the API server, by verb, resource and status code of the response.", (*_LABELS, "code")
    ),
    _DURATION: MetricFamily("histogram", "Time until the response was complete; watches are not in it.", _LABELS),
    _LONG_RUNNING: MetricFamily("gauge", "Open watches.", ("verb", "group", "resource")),
    _OBJECTS: MetricFamily("gauge", "Stored objects.", ("group", "resource")),
    _SIZE: MetricFamily("gauge", "Size of the data file and its log."),
    _COMMIT: MetricFamily("histogram", "Time from the start of a commit until its changes are on disk."),
    _COMMITTED: MetricFamily("counter", "Changes that are on disk."),
    _FAILED: MetricFamily("counter", "Commits that failed and were rolled back."),
    _HISTORY: MetricFamily("gauge", "Bytes of the history that watches can continue from."),
    _REVISION: MetricFamily("gauge", "The revision of the newest visible change."),
}
_DURATION_BOUNDS_S: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0),
    *(6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
_VERBS: Final = {"create": "POST", "update": "PUT"}
_KNOWN_VERBS: Final = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
    | {"head", "post", "put", "options"}
)
RequestLabels = tuple[str, str, str, str, str, str]


class APIServerMetrics:
    """``size_bytes``: returns the size of the data file."""

    def __init__(self, store: Store, size_bytes: Callable[[], int]) -> None:
        self._store: Final = store
        self._size_bytes: Final = size_bytes
        self._counts: Final[dict[tuple[RequestLabels, int], int]] = {}
        self._durations: Final = HistogramVec(_DURATION, _DURATION_BOUNDS_S, _LABELS)
        self._commits: Final = HistogramVec(_COMMIT, exponential_buckets(0.0005, 2, 14))
        self._committed = 0
        self._failed = 0
        self.watches: Callable[[], Mapping[str, int]] = dict
        """The number of open watches by resource; the API server sets it."""

    def request_handled(self, info: RequestInfo, kind: ServedKind | None, status: int, took_s: float) -> None:
        """``kind``: the kind that the request names; None if it names none that is served."""
        labels = request_labels(info, kind)
        self._counts[labels, status] = self._counts.get((labels, status), 0) + 1
        if labels[0] != "WATCH":
            self._durations.with_label_values(*labels).observe(took_s)

    def commit_ended(self, took_s: float, changes: int, ok: bool) -> None:
        if ok:
            self._commits.with_label_values().observe(took_s)
            self._committed += changes
        else:
            self._failed += 1

    def page(self) -> bytes:
        return exposition_text(FAMILIES, self._samples())

    def _samples(self) -> Iterator[Sample]:
        for (labels, status), count in sorted(self._counts.items()):
            yield Sample(_REQUESTS, (*zip(_LABELS, labels, strict=True), ("code", str(status))), count)
        yield from self._durations.samples()
        for resource, count in sorted(self.watches().items()):
            yield Sample(_LONG_RUNNING, (("verb", "WATCH"), *_resource_labels(resource)), count)
        for resource in sorted(self._store.resources()):
            yield Sample(_OBJECTS, _resource_labels(resource), self._store.count(resource))
        yield Sample(_SIZE, (), self._size_bytes())
        yield from self._commits.samples()
        yield Sample(_COMMITTED, (), self._committed)
        yield Sample(_FAILED, (), self._failed)
        yield Sample(_HISTORY, (), self._store.history_bytes)
        yield Sample(_REVISION, (), self._store.committed)


def request_labels(info: RequestInfo, kind: ServedKind | None) -> RequestLabels:
    """As kube-apiserver: the verb in capitals, creates and updates by their method. A request for anything that is not
    served has no resource."""
    verb = _VERBS.get(info.verb, info.verb.upper()) if info.verb in _KNOWN_VERBS else "other"
    if kind is None or info.problem:
        return verb, "", "", "", "", ""
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    is_known = not info.subresource or any(each.name == info.subresource for each in kind.subresources)
    return verb, info.group, info.version, info.resource, info.subresource if is_known else "other", scope


def _resource_labels(resource: str) -> tuple[tuple[str, str], ...]:
    """``resource``: as the store names it, ``jobs.batch``."""
    plural, _, group = resource.partition(".")
    return ("group", group), ("resource", plural)
