"""Samples, histograms with fixed buckets, and Prometheus' text format.

Bucket bounds are computed by repeated multiplication, as in kube-scheduler, so that the ``le`` labels of both have the
same text. The engines decide what is measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

Labels = tuple[tuple[str, str], ...]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(msgspec.Struct, frozen=True, order=True):
    name: str
    labels: Labels
    value: float


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """The number of values per bucket, not cumulative; the last bucket is for values above all bounds."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(self, name: str, labels: Labels) -> Iterator[Sample]:
        cumulative = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            cumulative += count
            yield Sample(f"{name}_bucket", (*labels, ("le", format_value(bound))), cumulative)
        yield Sample(f"{name}_sum", labels, self.total)
        yield Sample(f"{name}_count", labels, cumulative)


class HistogramVec:
    """One histogram per combination of label values. The caller limits the number of values."""

    def __init__(self, name: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self._bounds = bounds
        self._labels = labels
        self._histograms: dict[tuple[str, ...], Histogram] = {}
        if not labels:
            self.with_label_values()

    def with_label_values(self, *values: str) -> Histogram:
        histogram = self._histograms.get(values)
        if histogram is None:
            histogram = self._histograms[values] = Histogram(self._bounds)
        return histogram

    def delete_label_values(self, *values: str) -> None:
        self._histograms.pop(values, None)

    def items(self) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        return iter(sorted(self._histograms.items(), key=lambda item: item[0]))

    def samples(self) -> Iterator[Sample]:
        for values, each in self.items():
            yield from each.samples(self.name, tuple(zip(self._labels, values, strict=True)))


class MetricFamily(msgspec.Struct, frozen=True):
    """The header of the samples of one metric. ``kind``: counter, gauge, histogram or summary. ``labels``: those of
    its samples, without the ``le`` of buckets. No label may have values that grow with the number of pods."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


def exposition_text(families: Mapping[str, MetricFamily], samples: Iterable[Sample]) -> bytes:
    """The text format in the order of ``families``, without samples of other families."""
    lines: dict[str, list[str]] = {name: [] for name in families}
    for each in samples:
        name = each.name if each.name in lines else each.name.rpartition("_")[0]
        if name in lines:
            lines[name].append(f"{each.name}{_format_labels(each.labels)} {format_value(each.value)}\n")
    found = []
    for name, family in families.items():
        if lines[name]:
            found.append(f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n")
            found.extend(lines[name])
    return "".join(found).encode()


def format_value(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _format_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels) + "}"
