#!/usr/bin/env python3
"""Writes the alerts and the dashboard for a Prometheus and a Grafana without operators (`deploy/monitoring`), and the
generated parts of docs/observability.md.

    python tools/render_monitoring.py

The sources are `headgate.install.alert_rules`, `headgate.install.dashboard_panels` and the metric families of the
packages. A unit test compares the files with a fresh rendering.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from headgate.apiserver.metrics import FAMILIES as API_SERVER
from headgate.audit.metrics import FAMILIES as AUDIT
from headgate.gate_policies.metrics import FAMILIES as GATE_POLICIES
from headgate.install.alert_rules import ALERTS, rule_groups
from headgate.install.dashboard_panels import PANELS, dashboard_json
from headgate.install.names import NAME
from headgate.jobs.metrics import FAMILIES as JOBS
from headgate.kube.metrics import MetricFamily
from headgate.quota.metrics.metric_families import FAMILIES as QUOTA
from headgate.runtime.health.process_metrics import FAMILIES as PROCESS
from headgate.runtime.webhooks.metrics import FAMILIES as WEBHOOKS
from headgate.scheduling.metrics.capacity_queue_metrics import FAMILIES as QUEUES
from headgate.scheduling.metrics.scheduler_metrics import FAMILIES as SCHEDULER
from headgate.shadow.tally import FAMILIES as SHADOW

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "monitoring"
PAGE = ROOT / "docs" / "observability.md"
_MADE = "# Written by tools/render_monitoring.py from headgate.install.alert_rules.\n"
_WIDTH = 120

METRICS: Mapping[str, Mapping[str, MetricFamily]] = {
    "process": PROCESS,
    "scheduler": {name: each for name, each in SCHEDULER.items() if name not in QUEUES},
    "queues": QUEUES,
    "webhooks": WEBHOOKS,
    "quota": QUOTA,
    "jobs": JOBS,
    "gate policies": GATE_POLICIES,
    "shadow mode": SHADOW,
    "audit": AUDIT,
    "embedded": API_SERVER,
}
"""All metrics of Headgate, by the section of the page that lists them."""


def rendered_files() -> dict[str, str]:
    """The files of `deploy/monitoring` that are made, by their names."""
    rules = yaml.safe_dump({"groups": rule_groups(NAME)}, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return {"rules.yaml": _MADE + rules, "dashboard.json": json.dumps(dashboard_json(NAME), indent=2) + "\n"}


def rendered_parts() -> dict[str, str]:
    """The generated parts of the page, by their markers."""
    tables = {f"metrics of {name}": "\n".join(_metrics(families)) for name, families in METRICS.items()}
    return {**tables, "alerts": "\n".join(_alerts()), "panels": "\n".join(_panels())}


def rendered_page(text: str) -> str:
    """The page with its generated parts."""
    for name, part in rendered_parts().items():
        begin, end = f"<!-- {name}: written by tools/render_monitoring.py -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"docs/observability.md lacks {begin} or {end}: restore both lines")
        text = f"{before}{begin}\n{part}\n{end}{after}"
    return text


def _metrics(families: Mapping[str, MetricFamily]) -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for name, family in families.items():
        labels = ", ".join(f"`{each}`" for each in family.labels) or "–"
        yield f"| `{name}` | {family.kind} | {labels} | {family.help} |"


def _alerts() -> Iterator[str]:
    for alert in ALERTS:
        yield f"### {alert.name}\n"
        yield _wrapped(f"{_plain(alert.summary)}. Severity `{alert.severity}`, after {alert.lasts}:\n")
        yield f"```promql\n{alert.expression}\n```\n"
        yield _wrapped(f"**What to do.** {alert.action}\n")


def _plain(text: str) -> str:
    """The template of a label as the name of the label: ``{{ $labels.gate }}`` is *gate*."""
    return re.sub(r"\{\{ \$(?:labels\.)?(\w+) \}\}", r"*\1*", text)


def _panels() -> Iterator[str]:
    yield "| panel | query | meaning |"
    yield "|---|---|---|"
    for panel in PANELS:
        yield f"| {panel.title} | `{panel.query}` | {panel.meaning} |"


def _wrapped(text: str) -> str:
    end = "\n" if text.endswith("\n") else ""
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False) + end


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in rendered_files().items():
        (FOLDER / name).write_text(text)
    PAGE.write_text(rendered_page(PAGE.read_text()))
    print(f"{FOLDER} and {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
