"""The log of decisions: each line of the scheduler and of webhooks, and nothing below its level."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from clusters import a_node, a_pod
from headgate.admission.admission_review import AdmissionRequest
from headgate.capacity.api.stamp import Stamp, write_stamp
from headgate.kube.decisions import Decision
from headgate.runtime import decision_log
from headgate.runtime.scheduler.api_dispatcher import APIDispatcher
from headgate.runtime.scheduler.runner import SchedulerRunner
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    WriteResult,
)
from unit.runtime.serving import a_server, ask, until
from unit.runtime.test_scheduler_runner import PODS, HoldingTransport, a_scheduler, writer

Line = tuple[str, dict[str, Any]]
SHAPES = ShapeTable()
RESULTS = [each for each in WriteResult if each is not WriteResult.DONE]
REFUSALS = (WriteResult.TAKEN, WriteResult.GATED, WriteResult.REFUSED)


def logged(caplog: pytest.LogCaptureFixture) -> list[Line]:
    return [
        (
            record.getMessage(),
            {
                name: value
                for name, value in getattr(record, "fields", {}).items()
                if name not in ("uid", "waitSeconds", "durationSeconds")
            },
        )
        for record in caplog.records
        if record.name == decision_log.LOGGER
    ]


def pod_of(name: str, node: str = "") -> PodInfo:
    wire = a_pod(name, {"cpu": "1500m", "memory": "1Gi"})
    if node:
        wire["spec"]["nodeName"] = node
    pod = read_pod(wire, SHAPES)
    assert isinstance(pod, PodInfo)
    return pod


def stamp_of(pod: PodInfo) -> str:
    return write_stamp(Stamp(pod.uid, "team-a", pod.shape.requests, "2026-01-01T00:00:00.000000Z"))


POD = {"kind": "Pod", "namespace": "default", "name": "p"}
RESOURCES = {"cpu": "1500m", "memory": "1Gi"}


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=decision_log.LOGGER)


def test_a_binding(caplog: pytest.LogCaptureFixture) -> None:
    decision_log.log_binding(Bind(pod_of("p"), "n1"), WriteResult.DONE, "", "team-a", 0.0123456)
    assert logged(caplog) == [("bound", {**POD, "queue": "team-a", "node": "n1", "resources": RESOURCES})]
    assert getattr(caplog.records[0], "fields")["durationSeconds"] == 0.012  # noqa: B009 - it is no field of the class


def test_a_refused_binding(caplog: pytest.LogCaptureFixture) -> None:
    decision_log.log_binding(Bind(pod_of("p"), "n1"), WriteResult.REFUSED, "no", "", 0.1)
    expected = {**POD, "node": "n1", "resources": RESOURCES, "reason": "Binding", "message": "no"}
    assert logged(caplog) == [("refused", expected)]


@pytest.mark.parametrize("result", RESULTS)
def test_only_refusals_and_not_repeated_writes_are_logged(
    result: WriteResult, caplog: pytest.LogCaptureFixture
) -> None:
    pod = pod_of("p")
    decision_log.log_binding(Bind(pod, "n1"), result, "why", "", 0.1)
    decision_log.log_gate_removal(RemoveSchedulingGate(pod, stamp_of(pod)), result, "why", 0.1)
    decision_log.log_revocation(RemoveStamp(pod, stamp_of(pod)), result)
    assert [verb for verb, _ in logged(caplog)] == ["refused", "refused"] * (result in REFUSALS)


def test_the_removal_of_a_gate(caplog: pytest.LogCaptureFixture) -> None:
    pod = pod_of("p")
    decision_log.log_gate_removal(RemoveSchedulingGate(pod, stamp_of(pod)), WriteResult.DONE, "", 0.1)
    decision_log.log_gate_removal(RemoveSchedulingGate(pod, ""), WriteResult.DONE, "", 0.1)
    assert logged(caplog) == [
        ("gate removed", {**POD, "queue": "team-a", "resources": RESOURCES}),
        ("gate removed", POD),
    ]


def test_a_revoked_promise(caplog: pytest.LogCaptureFixture) -> None:
    pod = pod_of("p")
    decision_log.log_revocation(RemoveStamp(pod, stamp_of(pod)), WriteResult.DONE)
    assert logged(caplog) == [("revoked", {**POD, "queue": "team-a", "resources": RESOURCES})]


def test_the_victims_that_were_deleted(caplog: pytest.LogCaptureFixture) -> None:
    victims = (pod_of("v1", "n1"), pod_of("v2", "n1"))
    decision_log.log_preemption(Preempt(pod_of("p"), "n1", victims), [victims[1].uid], 0.2)
    expected = {**POD, "name": "v2", "node": "n1", "resources": RESOURCES, "preemptor": "default/p"}
    assert logged(caplog) == [("preempted", expected)]


def test_a_write_that_a_webhook_refuses(caplog: pytest.LogCaptureFixture) -> None:
    job = {"kind": "Job", "metadata": {"generateName": "train-"}}
    decision_log.log_refused_review(AdmissionRequest("CREATE", "jobs", "ns", obj=job), "no queue")
    expected = {"kind": "Job", "namespace": "ns", "name": "train-", "reason": "WebhookCreate", "message": "no queue"}
    assert logged(caplog) == [("refused", expected)]


def test_nothing_is_built_or_logged_above_the_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=decision_log.LOGGER)
    assert not decision_log.is_enabled()
    decision_log.log_decision(Decision(verb="admitted", kind="Workload", namespace="ns", name="a"))
    assert logged(caplog) == []


def test_the_dispatcher_logs_what_it_has_done(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        transport = HoldingTransport()
        transport.status = 200
        dispatcher = APIDispatcher(a_scheduler(), writer(transport), lambda: None)
        p, q, victim = pod_of("p"), pod_of("q"), pod_of("v", "n1")
        effects: list[Effect] = [
            Bind(p, "n1"),
            RemoveSchedulingGate(q, stamp_of(q)),
            RemoveStamp(q, stamp_of(q)),
            Preempt(p, "n1", (victim,)),
        ]
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            dispatcher.perform(effects)
            await until(lambda: len(logged(caplog)) >= len(effects))
            running.cancel()

    asyncio.run(scenario())
    assert sorted((verb, fields["name"]) for verb, fields in logged(caplog)) == [
        ("bound", "p"),
        ("gate removed", "q"),
        ("preempted", "v"),
        ("revoked", "q"),
    ]


def test_a_scheduler_at_level_info_logs_its_bindings_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with a_server() as transport, asyncio.TaskGroup() as group:
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            await ask(transport, "POST", "/api/v1/nodes", a_node("a"))
            for name, cpu in (("small", "1"), ("huge", "64")):
                pod = a_pod(name, {"cpu": cpu})
                del pod["metadata"]["uid"]
                status, told = await ask(transport, "POST", PODS, pod)
                assert status == 201, told
            running = group.create_task(SchedulerRunner(a_scheduler, transport, writer(transport)).run())

            async def is_settled() -> bool:
                _, events = await ask(transport, "GET", "/api/v1/namespaces/default/events")
                return sorted(each["reason"] for each in events["items"]) == ["FailedScheduling", "Scheduled"]

            await until(is_settled)
            running.cancel()

    asyncio.run(scenario())
    (record,) = [each for each in caplog.records if each.levelno >= logging.INFO]
    assert (record.name, record.getMessage()) == (decision_log.LOGGER, "bound")
    assert logged(caplog) == [
        (
            "bound",
            {"kind": "Pod", "namespace": "default", "name": "small", "node": "a", "resources": {"cpu": "1"}},
        )
    ]
