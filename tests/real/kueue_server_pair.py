"""The kinds of kueue.x-k8s.io on two servers: embedded, and real with webhooks beside it; each request goes to both.

The responses are compared without uids, times, revisions and field managers, and without the words in which each server
reports that admission refused a request.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.embedded_server import EmbeddedServer
from harness.queues import install_crds
from harness.real_server import RealServer
from harness.scheduler_process import wait_for
from harness.server import Result, Server
from harness.webhooks import WebhookProcess, prepare

Object = dict[str, Any]

GROUP = "/apis/kueue.x-k8s.io"
_CHANCE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generateName")
_REFUSED = re.compile(r'^(admission webhook "[^"]*" denied the request|[a-z.0-9-]+ "[^"]*" is forbidden): ')
_TYPES = {
    "PATCH": "application/merge-patch+json",
    "JSON": "application/json-patch+json",
    "APPLY": "application/apply-patch+yaml",
}


class Pair:
    """``webhooks``: the process that the real server asks; a test that stops it starts it again (``revive``)."""

    def __init__(self, real: Server, ours: Server, webhooks: WebhookProcess) -> None:
        self.real, self.ours, self.webhooks = real, ours, webhooks

    def revive(self) -> None:
        log = self.webhooks.log.with_suffix(".again")
        self.webhooks = WebhookProcess(self.real, log, port=self.webhooks.port)
        wait_for(lambda: is_ready(self.real), self.webhooks)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the answer, once both servers have given the same."""
        real, ours = (_asked(server, method, path, body) for server in (self.real, self.ours))
        assert ours == real, f"{method} {path}"
        status, answer, _ = real
        return status, answer

    def warned(self, method: str, path: str, body: Any = None) -> list[str]:
        """The warnings, once both servers have given the same answer."""
        real, ours = (_asked(server, method, path, body) for server in (self.real, self.ours))
        assert ours == real, f"{method} {path}"
        return real[2]

    def refused(self, method: str, path: str, body: Any) -> str:
        status, answer = self.ask(method, path, body)
        assert status in (403, 422), answer
        message: str = answer["message"]
        return message

    def watched(self, path: str, name: str, *types: str) -> list[Any]:
        """The watch events of one object, from the beginning, when both servers have sent the same ones."""
        told = []
        for server in (self.real, self.ours):
            watch = server.watch(f"{path}?watch=true&resourceVersion=0&fieldSelector=metadata.name={name}")
            told.append([_plain(json.loads(line)) for line in watch.lines(len(types))])
            watch.close()
        assert told[0] == told[1]
        assert [each["type"] for each in told[0]] == list(types)
        return [each["object"] for each in told[0]]

    def kubectl(self, *words: str, stdin: str = "") -> Result:
        real, ours = (server.kubectl(list(words), stdin=stdin) for server in (self.real, self.ours))
        assert (ours.exit, _ageless(ours.stdout), ours.stderr) == (real.exit, _ageless(real.stdout), real.stderr)
        return ours


@contextlib.contextmanager
def paired(folder: Path, programs: Path) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        servers: list[RealServer | EmbeddedServer] = []
        for start in (
            lambda: RealServer(folder / "real", programs),
            lambda: EmbeddedServer(folder / "ours", programs / "kubectl"),
        ):
            server = start()
            servers.append(server)
            stack.callback(server.stop)
            stack.callback(server.disconnect)
        real, ours = servers
        install_crds(ours)
        prepare(real)
        assert _asked(real, "GET", f"{GROUP}/v1beta1/clusterqueues")[0] == 404  # no webhook converts yet
        pair = Pair(real, ours, WebhookProcess(real, folder / "webhooks.log"))
        stack.callback(lambda: pair.webhooks.stop())
        wait_for(lambda: is_ready(real), pair.webhooks)
        yield pair


def is_ready(server: Server) -> bool:
    """Whether the API server has heard of the webhooks and serves both versions."""
    bad = {"metadata": {"name": "probe"}, "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
    for version in ("v1beta1", "v1beta2"):
        path = f"{GROUP}/{version}/admissionchecks"
        if (
            _asked(
                server,
                "POST",
                f"{path}?dryRun=All",
                {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "AdmissionCheck", **bad},
            )[0]
            != 403
        ):
            return False
    kinds = ("clusterqueues", "workloads", "cohorts", "localqueues", "resourceflavors", "workloadpriorityclasses")
    return all(_asked(server, "GET", f"{GROUP}/v1beta1/{each}")[0] == 200 for each in kinds)


def _asked(server: Server, method: str, path: str, body: Any = None) -> tuple[int, Any, list[str]]:
    headers = {"Content-Type": _TYPES.get(method, "application/json")}
    sent = None if body is None else json.dumps(body).encode()
    answer = server.request("PATCH" if method in _TYPES else method, path, headers, sent)
    warnings = [value for name, value in answer.headers if name == "warning"]
    try:
        said = answer.json()
    except ValueError:
        said = answer.body.decode()
    return answer.status, _plain(said), warnings


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "Status" and isinstance(value.get("message"), str):
        refused = _REFUSED.sub("", value["message"])
        return {"code": value.get("code"), "reason": value.get("reason"), "message": refused}
    return {name: _plain(below) for name, below in value.items() if name not in _CHANCE}


def _ageless(text: str) -> str:
    return re.sub(r" +\d+[smh]\b", " AGE", text)
