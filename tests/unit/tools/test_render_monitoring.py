"""`deploy/monitoring` and the tables of docs/observability.md are fresh, and name only metrics that exist."""

from __future__ import annotations

import re

import pytest
import yaml
from tools.render_monitoring import FOLDER, METRICS, PAGE, rendered_files, rendered_page

from headgate.install.alert_rules import ALERTS
from headgate.install.dashboard_panels import PANELS
from headgate.install.manifests import install_objects
from headgate.install.options import InstallOptions, read_values

FAMILIES = {name: each for families in METRICS.values() for name, each in families.items()}
FOREIGN = {"apiserver_admission_webhook_rejection_count"}
"""A metric of kube-apiserver."""
QUERIES = {each.name: each.expression for each in ALERTS} | {each.title: each.query for each in PANELS}


def test_the_files_are_a_fresh_rendering() -> None:
    committed = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert committed == rendered_files(), "run: python tools/render_monitoring.py"


def test_the_page_has_fresh_tables_of_metrics_alerts_and_panels() -> None:
    text = PAGE.read_text()
    assert text == rendered_page(text), "run: python tools/render_monitoring.py"


def test_a_page_without_a_marker_is_named_with_what_it_lacks() -> None:
    with pytest.raises(ValueError, match="lacks <!-- alerts: written by"):
        rendered_page(PAGE.read_text().replace("<!-- /alerts -->", ""))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_uses_metrics_and_labels_that_exist(name: str) -> None:
    used = re.findall(r"\b((?:apiserver|headgate|kueue|leader|scheduler)_\w+)(?:\{([^}]*)\})?", QUERIES[name])
    assert used
    for metric, matchers in used:
        family = FAMILIES.get(re.sub("_(bucket|sum|count)$", "", metric))
        assert family is not None or metric in FOREIGN, metric
        labels = set(re.findall(r"(\w+)(?:=~|=)", matchers))
        assert family is None or labels <= set(family.labels), (metric, labels)


def test_the_rule_file_has_the_rules_of_an_installation() -> None:
    options = read_values({"monitoring": {"prometheusRule": {"enabled": True}}})
    assert isinstance(options, InstallOptions)
    (rule,) = [each for each in install_objects(options, "headgate-system") if each["kind"] == "PrometheusRule"]
    assert yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"] == rule["spec"]["groups"]


def test_each_metric_is_listed_once_and_counters_are_named_as_such() -> None:
    names = [name for families in METRICS.values() for name in families]
    assert len(names) == len(set(names))
    for name, family in FAMILIES.items():
        assert (family.kind == "counter") == name.endswith("_total"), name


def test_each_alert_says_what_it_means_and_what_to_do() -> None:
    for alert in ALERTS:
        assert alert.severity in ("critical", "warning"), alert.name
        assert not alert.summary.endswith("."), alert.name
        assert alert.action.endswith((".", "?")), alert.name
