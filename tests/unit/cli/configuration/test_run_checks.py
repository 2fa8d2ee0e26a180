"""Configurations whose fields are valid and which `headgate run` refuses: `headgate config check` refuses them, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.configuration.types import API_VERSION, KIND
from headgate.cli.main import main

REFUSED = {
    "webhooks without a Service": ("components: [webhooks]", "webhooks.service: Required value"),
    "a dry run of quota": ("{components: [quota], dryRun: true}", "dryRun: Forbidden"),
    "a dry run of two": ("{components: [scheduler, quota], dryRun: true}", "dryRun: Forbidden"),
    "gated names without gates": ("queues: {gatedSchedulerNames: [other]}", "queues.gatedSchedulerNames: Forbidden"),
    "webhooks without queues": (
        "{components: [scheduler, webhooks], webhooks: {service: a/b}, scheduler: {names: [batch]}}",
        "scheduler.names: Forbidden",
    ),
    "a certificate without TLS": (
        "metrics: {listen: '127.0.0.1:1', certFile: here.pem, keyFile: here.pem}",
        "metrics.certFile: Forbidden",
    ),
    "two components that reserve the same capacity": ("components: [scheduler, gates]", "components: Forbidden"),
    "jobs without gates": (
        "{components: [jobs], featureGates: {PodSchedulingReadiness: false, QueueAllocationGate: false}}",
        "featureGates: Forbidden: pods wait in Kueue's queues behind scheduling gates",
    ),
    "a path in the place of a Service": ("{components: [webhooks], webhooks: {service: a/b/c}}", "webhooks.service: I"),
    "a Service with an invalid name": ("{components: [webhooks], webhooks: {service: a/B_b}}", "webhooks.service: I"),
    "no certificate": ("metrics: {secure: true, certFile: no.pem, keyFile: here.pem}", "metrics.certFile: Invalid"),
    "no key": ("metrics: {secure: true, certFile: here.pem, keyFile: no.pem}", "metrics.keyFile: Invalid"),
    "no kubeconfig": ("clientConnection: {kubeconfig: no.yaml}", "clientConnection.kubeconfig: Invalid"),
}
ACCEPTED = (
    "{components: [scheduler, gates], scheduler: {names: [batch]}}",
    "{components: [scheduler], featureGates: {PodSchedulingReadiness: false, QueueAllocationGate: false}}",
    "dryRun: true",
    "{components: [webhooks], webhooks: {url: 'https://h:1'}}",
    "{components: [gates, webhooks], webhooks: {service: a/b}, scheduler: {names: [batch]}}",
    "metrics: {secure: true, certFile: here.pem, keyFile: here.pem}",
    "{components: [webhooks], webhooks: {service: a/b}, scheduler: {names: [batch, volcano]}}",
)


def _check(fields: str, folder: Path) -> tuple[int, str]:
    (folder / "here.pem").write_text("")
    body = fields[1:-1] if fields.startswith("{") else fields
    file = folder / "headgate.yaml"
    file.write_text(f"{{apiVersion: {API_VERSION}, kind: {KIND}, {body}}}\n")
    done = CliRunner().invoke(main, ["config", "check", str(file)])
    return done.exit_code, done.output


@pytest.mark.parametrize(("fields", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_run_refuses_does_not_pass(fields: str, expected: str, tmp_path: Path) -> None:
    exit_code, output = _check(fields, tmp_path)
    assert exit_code == 1
    assert expected in output


@pytest.mark.parametrize("fields", ACCEPTED)
def test_a_file_that_run_accepts_passes(fields: str, tmp_path: Path) -> None:
    assert _check(fields, tmp_path)[0] == 0
