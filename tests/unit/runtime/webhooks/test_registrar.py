"""The registrar beside those of other replicas: each writes its own entries, and then no more."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import pytest

from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.runtime.webhooks.certificates import WebhookCertificates
from headgate.runtime.webhooks.configurations import component_of
from headgate.runtime.webhooks.registrar import WebhookRegistrar
from headgate.runtime.webhooks.target import WebhookTarget
from unit.runtime.webhooks.fake_api_server import MUTATING, SECRET, VALIDATING, FakeAPIServer

SETTINGS = AdmissionSettings(schedulers=frozenset({"headgate"}))
WITH_JOBS = msgspec.structs.replace(SETTINGS, suspends_jobs=True)
OTHER_FLAGS = msgspec.structs.replace(SETTINGS, schedulers=frozenset({"volcano"}))
WITHOUT_GATES = msgspec.structs.replace(SETTINGS, queue_gate_enabled=False)
ONE, OTHER = WebhookTarget(url="https://one.example:9443"), WebhookTarget(url="https://other.example:9443")


async def _ignore(certificates: WebhookCertificates) -> None:
    """A server that uses the certificates."""


class Scope:
    def __init__(self) -> None:
        self.value = ReviewScope()

    def __call__(self) -> ReviewScope:
        return self.value


def a_registrar(
    api: FakeAPIServer, settings: AdmissionSettings, target: WebhookTarget = ONE, scope: Scope | None = None
) -> WebhookRegistrar:
    secret = ("headgate-system", "headgate-webhooks")
    return WebhookRegistrar(InProcessTransport(api.answer), secret, target, settings, _ignore, scope or Scope())


def entries(api: FakeAPIServer) -> list[dict[str, object]]:
    return [hook for path in (MUTATING, VALIDATING) for hook in api.objects[path]["webhooks"]]


@pytest.mark.parametrize(
    ("first", "second"),
    list(itertools.permutations([(SETTINGS, ONE), (WITH_JOBS, ONE), (OTHER_FLAGS, ONE), (WITHOUT_GATES, OTHER)], 2)),
)
def test_two_replicas_with_other_components_or_flags_come_to_rest(
    first: tuple[AdmissionSettings, WebhookTarget], second: tuple[AdmissionSettings, WebhookTarget]
) -> None:
    """The reconciles follow each other as they do when each hears of the other's writes."""

    async def scenario() -> None:
        api = FakeAPIServer()
        replicas = [a_registrar(api, *first), a_registrar(api, *second)]
        for _ in range(2):
            for replica in replicas:
                assert await replica.reconcile() == ""
        written, settled = len(api.writes), entries(api)
        for _ in range(5):
            for replica in replicas:
                await replica.reconcile()
        assert len(api.writes) == written
        assert entries(api) == settled

    asyncio.run(scenario())


def test_the_entries_of_both_stay_when_one_runs_jobs_and_the_other_does_not() -> None:
    async def scenario() -> None:
        api = FakeAPIServer()
        replicas = [a_registrar(api, WITH_JOBS, OTHER), a_registrar(api, SETTINGS, ONE)]
        for replica in (*replicas, *replicas):
            await replica.reconcile()
        where = {component_of(str(hook["name"])): str(hook["clientConfig"]) for hook in entries(api)}
        assert "other.example" in where["jobs"]
        assert "one.example" in where["webhooks"]

    asyncio.run(scenario())


def test_replicas_at_different_addresses_share_one_certificate() -> None:
    async def scenario() -> None:
        api = FakeAPIServer()
        replicas = [a_registrar(api, SETTINGS, ONE), a_registrar(api, SETTINGS, OTHER)]
        for replica in (*replicas, *replicas):
            await replica.reconcile()
        before = api.objects[SECRET]["data"]
        for replica in replicas:
            await replica.reconcile()
        assert api.objects[SECRET]["data"] == before
        labels = api.objects[SECRET]["metadata"]["labels"]
        assert labels == {"app.kubernetes.io/part-of": "headgate"}, "so that an uninstallation deletes it"

    asyncio.run(scenario())


def test_a_default_queue_changes_the_conditions() -> None:
    async def scenario() -> None:
        api, scope = FakeAPIServer(), Scope()
        replica = a_registrar(api, WITH_JOBS, scope=scope)
        await replica.reconcile()
        scope.value = ReviewScope(default_queue_namespaces=frozenset({"team"}))
        await replica.reconcile()
        (other,) = (hook for hook in entries(api) if hook["name"] == "others.wait.jobs.batch.jobs.headgate.dev")
        assert "request.namespace in ['team']" in str(other["matchConditions"])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.35.8", True), ("v1.30.0-rc.1+k3s1", True), ("v1.29.9", False), ("v1.35.0+headgate.0.2.0", False)],
)
def test_conditions_are_written_only_for_servers_that_evaluate_them(version: str, expected: bool) -> None:
    async def scenario() -> None:
        api = FakeAPIServer(version)
        await a_registrar(api, WITH_JOBS).reconcile()
        assert any("matchConditions" in hook for hook in entries(api)) == expected

    asyncio.run(scenario())
