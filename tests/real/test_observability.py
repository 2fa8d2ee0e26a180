"""What an operator sees: docs/observability.md, the dashboard and the alerts, with Debian's Prometheus and a real API
server.

The last test takes Headgate away.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from tools.render_monitoring import METRICS

from harness.metrics_page import families_of, get
from harness.prometheus import promtool
from harness.rights import json_lines
from harness.scheduler_process import create_pod, is_bound, pods, wait_for
from headgate.cli.options.log_options import TextFormatter
from headgate.install.alert_rules import ALERTS, Alert
from headgate.install.dashboard_panels import PANELS, Panel
from headgate.install.manifests import install_objects
from headgate.install.options import InstallOptions, read_values
from headgate.kube.decisions import Verb
from real.observed_cluster import NAMESPACE, PAGE, VALUES, ObservedCluster

pytestmark = pytest.mark.real

Object = dict[str, Any]
ELSEWHERE = ("shadow mode", "audit")
"""What other commands serve: `tests/unit/shadow/test_tally.py` and `tests/unit/audit/test_live_audit.py` have them."""
FAMILIES = {
    name: each for section, families in METRICS.items() if section not in ELSEWHERE for name, each in families.items()
}
TEXT = PAGE.read_text()
HAPPENS_RARELY = {
    "headgate_queue_terminating": "no pod of a queue terminates slowly here",
    "headgate_scheduler_slow_plugin_calls_total": "there is no plugin of another package",
    "kueue_finished_workloads": "no job ends here",
    "kueue_finished_workloads_total": "no job ends here",
    "kueue_local_queue_finished_workloads": "no job ends here",
    "kueue_local_queue_finished_workloads_total": "no job ends here",
    "kueue_ready_wait_time_seconds": "no kubelet runs the pods",
    "kueue_local_queue_ready_wait_time_seconds": "no kubelet runs the pods",
    "kueue_admitted_until_ready_wait_time_seconds": "no kubelet runs the pods",
    "kueue_local_queue_admitted_until_ready_wait_time_seconds": "no kubelet runs the pods",
    "kueue_pod_scheduling_gate_removal_seconds": "no pod of its own is in a queue of Kueue",
    "scheduler_inflight_events": "events arrive during an attempt, or not",
    "scheduler_permit_wait_duration_seconds": "no pod waits for a permit",
}
"""Metrics that have no sample in this cluster. Their unit tests are beside the code."""
AMOUNTS = r"volcano_queue_\w+_(milli_cpu|memory_bytes|scalar_resources)$"
"""They have a sample for each resource that a queue has or limits; here that is the CPU."""
TIMED_RARELY = re.compile("scheduler_(plugin_execution|framework_extension_point)_duration_seconds")
"""One attempt in ten is timed, so that a combination of labels may appear late."""
BY_EVENT = re.compile("scheduler_(inflight_events|queue_incoming_pods_total){")
"""Whether an event arrives during an attempt, and whether the pod still has to back off then, is not decided here. The
labels have the names of events and queues, and none of an object."""
NOT_HERE = {"GateRemovalsAreRefused": "no removal is refused", "GateWebhookFails": "the last test has it"}
"""Alerts whose selectors match no series while all is well."""


@pytest.fixture(scope="module")
def cluster(
    kube_binaries: Path, prometheus_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObservedCluster]:
    made = ObservedCluster(tmp_path_factory.mktemp("observed"), kube_binaries, prometheus_programs)
    try:
        made.prepare_queues()
        made.use_queues(1)
        made.decide_everything()
        made.prometheus.until_answered('kueue_evicted_workloads_total{reason="Preempted"}')
        made.use_queues(2)
        yield made
    finally:
        made.stop()


def test_prometheus_scrapes_headgate_with_the_documented_configuration(cluster: ObservedCluster) -> None:
    assert list(cluster.prometheus.until_answered('up{job="headgate"} == 1').values()) == [1.0]
    status, _ = get(cluster.metrics_url)
    assert status == 401, "the metrics are for users with a token"


@pytest.mark.parametrize("panel", PANELS, ids=lambda each: each.title.replace(" ", "-"))
def test_a_panel_shows_data_under_its_legend(panel: Panel, cluster: ObservedCluster) -> None:
    cluster.prometheus.until_answered(panel.query)
    labels = set(re.findall(r"\{\{(\w+)\}\}", panel.legend))
    for each in cluster.prometheus.ask("query", query=panel.query)["result"]:
        assert labels <= each["metric"].keys(), each


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_an_alert_is_evaluated_and_its_metrics_are_there(alert: Alert, cluster: ObservedCluster) -> None:
    def state() -> tuple[str, str]:
        rule = cluster.prometheus.rules()[alert.name]
        return rule["health"], rule["state"]

    # The first evaluation may precede the first scrape: then an alert about absent metrics is pending until the next.
    wait_for(lambda: state() == ("ok", "inactive"), cluster.prometheus, state=lambda: str(state()))
    selectors = re.findall(r"\b((?:apiserver|headgate|kueue|leader|scheduler)_\w+(?:\{[^}]*\})?)", alert.expression)
    assert selectors
    for selector in selectors:
        name = selector.partition("{")[0]
        cluster.prometheus.until_answered(name if alert.name in NOT_HERE else selector)


@pytest.mark.parametrize("target", ["metrics_url", "gates_url", "embedded_url"])
def test_promtool_finds_no_fault_in_the_metrics(
    target: str, cluster: ObservedCluster, prometheus_programs: Path
) -> None:
    done = promtool(prometheus_programs, "check", "metrics", stdin=_page(cluster, target))
    assert (done.exit, done.stdout, done.stderr) == (0, "", "")


def test_each_metric_of_the_page_is_served_with_its_type_and_labels(cluster: ObservedCluster) -> None:
    """The tables of the page are made from the families, so this compares the page with what is served."""
    wait_for(lambda: "headgate_gate_policy_actions_total{" in _page(cluster, "metrics_url"), cluster.headgate)
    seen: set[str] = set()
    for target in ("metrics_url", "gates_url", "embedded_url"):
        for family in families_of(_page(cluster, target)).values():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert (name, family.type) == (name, FAMILIES[name].kind)
            for labels in _labels(family):
                assert sorted(labels) == sorted(FAMILIES[name].labels), name
            seen.add(name)
    missing = {name for name in FAMILIES.keys() - seen if not re.match(AMOUNTS, name)}
    assert missing | {"scheduler_inflight_events"} == HAPPENS_RARELY.keys()


def _page(cluster: ObservedCluster, target: str) -> str:
    return cluster.page() if target == "metrics_url" else get(getattr(cluster, target))[1]


def _labels(family: Metric) -> list[set[str]]:
    return [set(each.labels) - {"le"} for each in family.samples]


def test_at_level_info_there_are_lines_about_decisions_and_no_others(cluster: ObservedCluster) -> None:
    """Lines of the logger `headgate` go to standard output: the process starts, leads, is ready."""
    lines = json_lines(cluster.log)
    assert {each["logger"] for each in lines} == {"headgate", "headgate.decisions"}, [
        each for each in lines if each["logger"] not in ("headgate", "headgate.decisions")
    ]


def test_the_page_has_an_example_of_each_decision_that_looks_like_a_real_line(cluster: ObservedCluster) -> None:
    text_block, json_block = re.findall(r"```(?:text|json) decisions\n(.*?)```", TEXT, re.DOTALL)
    texts, examples = text_block.splitlines(), [json.loads(each) for each in json_block.splitlines()]
    assert {each["msg"] for each in examples} == set(get_args(Verb))
    real: dict[tuple[str, str], list[list[str]]] = {}
    for line in cluster.decisions():
        real.setdefault((line["msg"], line["kind"]), []).append(list(line))
    for text, example in zip(texts, examples, strict=True):
        keys = real.get((example["msg"], example["kind"]))
        assert keys is not None, f"no {example['msg']} of a {example['kind']} was logged: {sorted(real)}"
        assert list(example) in keys, example
        assert text == _as_text(example)


def _as_text(example: Object) -> str:
    """The same line in the other format, at the same time of day."""
    head = ("level", "ts", "logger", "caller", "msg")
    record = logging.LogRecord(example["logger"], logging.INFO, "", 0, example["msg"], (), None)
    record.fields = {name: value for name, value in example.items() if name not in head}
    return f"{example['ts'][11:19]}{TextFormatter().format(record)[8:]}"


def test_the_objects_of_the_operator_are_valid_for_their_definitions(cluster: ObservedCluster) -> None:
    options = read_values(VALUES)
    assert isinstance(options, InstallOptions)
    kinds = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
    ours = [each for each in install_objects(options, NAMESPACE) if each["kind"] in kinds]
    assert len(ours) == len(kinds)
    for each in ours:
        kind = each["kind"].lower()
        stored = json.loads(cluster.typed("get", kind, "headgate", "-n", NAMESPACE, "-o", "json"))
        assert stored["spec"] == each["spec"], "the definition drops fields that it does not know"
        copied = {**each, "metadata": {"name": "again", "namespace": NAMESPACE}}
        cluster.typed("create", "--validate=strict", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(copied))


def test_more_pods_and_jobs_have_no_more_series(cluster: ObservedCluster) -> None:
    few = _series_with(cluster, 0, 10)
    many = _series_with(cluster, 10, 30)
    assert {each for each in many - few if not TIMED_RARELY.match(each) and not BY_EVENT.match(each)} == set()
    assert [each for each in many if "more-" in each] == []


def _series_with(cluster: ObservedCluster, first: int, end: int) -> set[str]:
    """Of Headgate, when it has seen so many pods of each sort, and jobs."""
    for number in range(first, end):
        for pod in ("far", "waits", "gated", "free"):
            create_pod(cluster.server, cluster.more_of(pod, number))
        cluster.create_job(f"more-{number}", "batch", "100")

    def are_handled() -> bool:
        found = [each for name, each in pods(cluster.server).items() if name.startswith("more-free-")]
        return len(found) == end and all(map(is_bound, found))

    wait_for(are_handled, cluster.headgate)
    cluster.prometheus.until_answered(f'kueue_pending_workloads{{cluster_queue="batch"}} >= {end}')
    # The first in the queue is examined after that, and gets its own series.
    cluster.prometheus.until_answered('kueue_local_queue_unadmitted_workloads{underlying_cause="ExceedsMaxQuota"} > 0')
    cluster.prometheus.until_answered('kueue_unadmitted_workloads{underlying_cause="ExceedsMaxQuota"} > 0')
    return {line.rpartition(" ")[0] for line in cluster.page().splitlines() if not line.startswith("#")}


def test_alerts_notice_that_headgate_is_gone(cluster: ObservedCluster) -> None:
    cluster.break_webhooks()
    failed = 'apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error"}'
    cluster.prometheus.until_answered(failed)
    cluster.refused_by_absence()
    expected = {"HeadgateIsDown", "GateWebhookFails"}

    def pending() -> set[str]:
        return {name for name, rule in cluster.prometheus.rules().items() if rule["state"] != "inactive"}

    wait_for(lambda: pending() >= expected, cluster.prometheus, state=lambda: str(pending()))
