"""Reads the metrics of a running scheduler as Prometheus does."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from harness.processes import Process


def get(url: str, token: str = "") -> tuple[int, str]:
    context = ssl._create_unverified_context() if url.startswith("https") else None
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def page_of(process: Process) -> str:
    found = re.search(r"metrics: (https?://\S+)/metrics", process.log.read_text())
    assert found is not None
    return found[1]


def families(url: str) -> dict[str, Metric]:
    status, text = get(f"{url}/metrics")
    assert status == 200
    return families_of(text)


def families_of(text: str) -> dict[str, Metric]:
    """The metrics of a page; the name of a counter is without ``_total``."""
    return {each.name: each for each in text_string_to_metric_families(text)}


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    family = found.get(name.removesuffix("_total").removesuffix("_count"))
    samples = [] if family is None else family.samples
    return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


def gate_removals(text: str) -> tuple[dict[str, float], float, float]:
    """Of the page: responses to gate removals by result, without results that did not occur; the number of timed
    removals, and the sum of their durations."""
    found = families_of(text)
    timed = "headgate_gate_removal_duration_seconds"
    results = {each.labels["result"]: each.value for each in found["headgate_gate_removals"].samples if each.value}
    durations = {each.name: each.value for each in found[timed].samples}
    return results, durations[f"{timed}_count"], durations[f"{timed}_sum"]
