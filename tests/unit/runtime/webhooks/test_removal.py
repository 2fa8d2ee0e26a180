"""The registrar and uninstallation: what is deleted for good is not restored, until Headgate is installed again."""

from __future__ import annotations

import asyncio

from headgate.admission.settings import AdmissionSettings
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.webhooks.certificates import WebhookCertificates
from headgate.runtime.webhooks.registrar import WebhookRegistrar
from headgate.runtime.webhooks.target import WebhookTarget
from unit.install.installation import Installation

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/headgate"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
SECRET = ("headgate-system", "headgate-webhooks")


def test_deleted_configurations_are_restored_unless_uninstallation_deleted_them() -> None:
    made = Installation()
    made.install()

    async def answer(request: HTTPRequest) -> HTTPResponse:
        if request.path == "/version":  # of a real server that is too old for match conditions, which ours refuses
            return HTTPResponse(200, {}, b'{"gitVersion":"v1.29.0"}')
        return made.request(request)

    async def use(certificates: WebhookCertificates) -> None:
        """A server that uses the certificates."""

    async def scenario() -> None:
        settings = AdmissionSettings(schedulers=frozenset({"headgate"}))
        target = WebhookTarget(url="https://one.example:9443")
        registrar = WebhookRegistrar(InProcessTransport(answer), SECRET, target, settings, use)
        await registrar.prepare()
        await registrar.reconcile()
        made.server.delete(PATH)
        await registrar.reconcile()
        assert made.get(PATH), "a deleted configuration is restored"

        made.uninstall(prepares=True)
        await registrar.reconcile()
        assert made.get(PATH) is None
        assert made.get(DEFINITION)["spec"]["conversion"] == {"strategy": "None"}

        made.install()
        await registrar.reconcile()
        assert made.get(PATH)
        assert made.get(DEFINITION)["spec"]["conversion"]["strategy"] == "Webhook"

    asyncio.run(scenario())
