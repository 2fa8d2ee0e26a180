"""``headgate hold`` and ``headgate resume``: what they print for each state of a job and its Workload."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli.commands.hold import describe_outcome, describe_overdue
from headgate.cli.main import main
from headgate.client.pager import ListRefused
from headgate.jobs.kinds.batch_job import JOB
from headgate.quota.api.activation import ActivationEvent
from headgate.runtime.actions.job_labels import why_impossible
from kueue_builders import Wire, a_condition, a_workload

HOLD, RESUME = ActivationEvent.DEACTIVATE, ActivationEvent.ACTIVATE
MARK = {"headgate.dev/deactivated-by-label": "true"}


def a_job(suspend: bool = True, status: Wire | None = None, **labels: str) -> Wire:
    named = {f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}
    return {"metadata": {"name": "train", "labels": named}, "spec": {"suspend": suspend}, "status": status or {}}


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (a_job(), ""),
        (a_job(suspend=False), "runs: only a suspended job can be held or resumed (spec.suspend is not true)"),
        (a_job(status={"conditions": [{"type": "Complete", "status": "True"}]}), "has ended"),
    ],
)
def test_only_a_suspended_job_is_labelled(job: Wire, problem: str) -> None:
    assert why_impossible(JOB, job) == problem


@pytest.mark.parametrize(
    ("event", "workload", "text", "is_done"),
    [
        (HOLD, {"active": False, "annotations": MARK}, "held; its Workload w is not admitted until", True),
        (HOLD, {"status": {"conditions": [a_condition("Admitted")]}}, "not held: its Workload w is admitted", False),
        (HOLD, {}, "not held: another client resumed it", False),
        (HOLD, {"active": False}, "headgate resume does not change that", True),
        (RESUME, {}, "resumed; its Workload w waits for quota", True),
        (RESUME, {"status": {"conditions": [a_condition("Admitted")]}}, "its Workload w is admitted", True),
        (RESUME, {"active": False, "annotations": MARK}, "not resumed: another client held it", False),
        (RESUME, {"active": False}, """kubectl patch workload w --type merge -p '{"spec":{"active":true}}'""", False),
    ],
)
def test_the_result_is_that_of_the_workload(
    event: ActivationEvent, workload: dict[str, Any], text: str, is_done: bool
) -> None:
    outcome = describe_outcome("job ns/train", a_job(), a_workload("w", **workload), event)
    assert outcome is not None
    assert outcome.text.startswith("job ns/train: ")
    assert text in outcome.text
    assert outcome.is_done is is_done


def test_a_request_that_is_not_consumed_has_no_result_yet() -> None:
    assert describe_outcome("job", a_job(deactivate="true"), a_workload("w"), HOLD) is None
    labelled = a_workload("w")
    labelled["metadata"]["labels"] = {"kueue.x-k8s.io/deactivate": "true"}
    assert describe_outcome("job", a_job(), labelled, HOLD) is None


def test_a_missing_right_is_named_and_a_missing_workload_is_an_error() -> None:
    unseen = describe_outcome("job ns/train", a_job(), ListRefused("missing right: list workloads"), HOLD)
    assert unseen is not None
    assert unseen.is_done
    assert "missing right: list workloads" in unseen.text
    gone = describe_outcome("job ns/train", a_job(), None, HOLD)
    assert gone is not None
    assert not gone.is_done


@pytest.mark.parametrize("verb", ["hold", "resume"])
def test_the_help_has_an_example_and_a_wrong_kind_is_refused(verb: str) -> None:
    shown = CliRunner().invoke(main, [verb, "--help"])
    assert shown.exit_code == 0
    assert f"headgate {verb} train -n team-a" in shown.output
    refused = CliRunner().invoke(main, [verb, "pod/train"])
    assert refused.exit_code == 2
    assert "add --job-kinds FILE" in refused.output


def test_a_job_without_a_queue_is_not_promised_a_workload() -> None:
    label = "kueue.x-k8s.io/deactivate"
    outcome = describe_overdue("job ns/train", label, a_job(), None, 10.0)
    assert not outcome.is_done
    assert outcome.text == (
        "job ns/train is labelled kueue.x-k8s.io/deactivate=true, and has no Workload: it names no queue. Name one "
        "with the label kueue.x-k8s.io/queue-name; its Workload will be created with kueue.x-k8s.io/deactivate=true. "
        "Or remove the label with: kubectl label job train kueue.x-k8s.io/deactivate-"
    )
    in_queue = a_job()
    in_queue["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    queued = describe_overdue("job ns/train", label, in_queue, None, 10.0)
    assert queued.is_done
    assert queued.text.endswith("has no Workload yet: its Workload will be created with the label")


def test_a_label_that_is_on_the_workload_already_is_removed_there() -> None:
    label = "kueue.x-k8s.io/deactivate"
    labelled = a_job()
    labelled["metadata"]["labels"][label] = "true"
    workload = {"metadata": {"name": "job-train-1a2b3"}}
    assert describe_overdue("job ns/train", label, labelled, workload, 10.0).text.endswith(
        "The label stays on the job until they do; remove it with: kubectl label job train kueue.x-k8s.io/deactivate-"
    )
    assert describe_overdue("job ns/train", label, a_job(), workload, 10.0).text.endswith(
        "The label stays on the Workload until they do; remove it with: "
        "kubectl label workload job-train-1a2b3 kueue.x-k8s.io/deactivate-"
    )
