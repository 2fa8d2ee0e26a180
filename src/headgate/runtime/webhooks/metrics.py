"""Metrics of the webhook server: how long reviews take, and whether the server runs.

The thread of the webhook server (``service.py``) records them; the thread that serves ``/metrics`` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headgate.kube.metrics import HistogramVec, MetricFamily, Sample, exposition_text

_DURATION: Final = "headgate_webhook_review_duration_seconds"
_READS: Final = "headgate_webhook_reads_total"
_READY: Final = "headgate_webhook_ready"
_START_FAILURES: Final = "headgate_webhook_start_failures_total"
_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _DURATION: MetricFamily("histogram", "Time from the arrival of an admission review to its response.", ("webhook",)),
    _READS: MetricFamily("counter", "Objects that reviews read because they were not cached, or before a refusal."),
    _READY: MetricFamily("gauge", "1 if the webhook server of this replica answers reviews and is not stopping."),
    _START_FAILURES: MetricFamily(
        "counter", "Failed starts and later failures of the webhook server; it is restarted."
    ),
}


class WebhookMetrics:
    """The steps of ``admission/steps.py`` limit the number of label values."""

    def __init__(self) -> None:
        self._duration: Final = HistogramVec(_DURATION, _BOUNDS_S, ("webhook",))
        self._reads = 0
        self._start_failures = 0

    def reviewed(self, webhook: str, seconds: float) -> None:
        self._duration.with_label_values(webhook).observe(seconds)

    def read(self) -> None:
        """A review has read an object from the API server."""
        self._reads += 1

    def failed(self) -> None:
        """The server could not start, or has ended; it is started again."""
        self._start_failures += 1

    def page(self, *, is_ready: bool) -> bytes:
        return exposition_text(FAMILIES, self._samples(is_ready))

    def _samples(self, is_ready: bool) -> Iterator[Sample]:
        yield from self._duration.samples()
        yield Sample(_READS, (), self._reads)
        yield Sample(_READY, (), int(is_ready))
        yield Sample(_START_FAILURES, (), self._start_failures)
