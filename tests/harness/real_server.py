"""A real etcd and kube-apiserver in their own folder, started for one test process and stopped with it.

Admission is configured for an API server without controllers: no controller creates service accounts or removes taints
of new nodes. All other options have their defaults. etcd does not fsync unless it is asked to, because no data is
needed after the session. `tools/kube/build.py` knows the folder of the binaries.
"""

from __future__ import annotations

import functools
import http.client
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from harness.certificate_authority import trusted
from harness.processes import NotReady, Process, free_ports
from harness.server import Server
from harness.users import TOKEN, TOKENS

REPOSITORY = Path(__file__).resolve().parents[2]
# Anonymous users may read health and version and nothing else, as on the embedded server.
AUTHENTICATION = {
    "kind": "AuthenticationConfiguration",
    "anonymous": {
        "enabled": True,
        "conditions": [{"path": path} for path in ("/healthz", "/livez", "/readyz", "/version")],
    },
}
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
HOW_TO_GET_THEM = "run `make kube` (needs Go), or set HEADGATE_KUBE_BIN to a folder that has them"


def binaries() -> Path | None:
    """The folder of the real binaries, or None if one that the suites need is absent."""
    asked = subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / "kube" / "build.py"), "--print-dir"],
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(asked.stdout.strip())
    return folder if all(os.access(folder / name, os.X_OK) for name in NEEDED) else None


class RealServer(Server):
    def __init__(
        self,
        folder: Path,
        programs: Path,
        name: str = "real",
        flags: Sequence[str] = (),
        *,
        fsync: bool = False,
        disabled_plugins: str = "ServiceAccount,TaintNodesByCondition",
    ) -> None:
        self._disabled_plugins = disabled_plugins
        self._processes: list[Process] = []
        self._etcd_flags = () if fsync else ("--unsafe-no-fsync",)
        last: NotReady | None = None
        for attempt in range(3):
            place = folder / str(attempt)
            place.mkdir(parents=True)
            try:
                kubeconfig = self._start(place, programs, flags)
                break
            except NotReady as trouble:
                last = trouble
                self.stop()
        else:
            raise last or NotReady("kube-apiserver did not start")
        super().__init__(name, kubeconfig, programs / "kubectl", place / "home")

    def _start(self, place: Path, programs: Path, flags: Sequence[str]) -> Path:
        client_port, peer_port, secure_port = free_ports(3)
        client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
        etcd = Process(
            [
                str(programs / "etcd"),
                *("--data-dir", str(place / "etcd"), *self._etcd_flags, "--log-level", "error"),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
            ],
            place / "etcd.log",
        )
        self._processes.append(etcd)
        self.etcd_url = client
        key, tokens = place / "sa.key", place / "tokens.csv"
        key.write_bytes(_signing_key())
        tokens.write_text(TOKENS)
        clients = place / "clients.crt"
        clients.write_bytes(trusted().pem)
        self.account_key = key
        authentication = place / "authentication.yaml"
        configuration = {"apiVersion": f"apiserver.config.k8s.io/{_configuration_version(programs)}"}
        authentication.write_text(yaml.safe_dump({**configuration, **AUTHENTICATION}))
        self._apiserver_log = place / "kube-apiserver.log"
        self._apiserver_ready = lambda: _answers_readyz(secure_port, place / "certificates" / "apiserver.crt")
        self._apiserver_command = [
            str(programs / "kube-apiserver"),
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={secure_port}",
            f"--cert-dir={place / 'certificates'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={tokens}",
            f"--client-ca-file={clients}",
            f"--authentication-config={authentication}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--disable-admission-plugins={self._disabled_plugins}",
            *flags,
        ]
        self._start_apiserver()
        certificate = place / "certificates" / "apiserver.crt"
        kubeconfig = place / "kubeconfig"
        kubeconfig.write_text(_kubeconfig(f"https://127.0.0.1:{secure_port}", certificate))
        return kubeconfig

    def _start_apiserver(self) -> None:
        apiserver = Process(self._apiserver_command, self._apiserver_log)
        self._processes.append(apiserver)
        apiserver.wait_until(self._apiserver_ready, 90)

    def kill(self) -> None:
        """No goodbye of the API server; its etcd lives on, and `restart` starts the next one at the same address."""
        self._processes.pop().kill()

    def restart(self) -> None:
        self._start_apiserver()

    def log(self) -> str:
        return "\n".join(f"--- {each.name} (end of {each.log})\n{each.tail()}" for each in self._processes)

    def pids(self) -> dict[str, int]:
        """Its processes by the name of their program."""
        return {each.name: each.pid for each in self._processes}

    def stop(self) -> None:
        for each in reversed(self._processes):
            each.stop()
        self._processes.clear()


@functools.cache
def _configuration_version(programs: Path) -> str:
    """Of the configuration of authentication: v1 since Kubernetes 1.34."""
    said = subprocess.run([str(programs / "kube-apiserver"), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v1\.(\d+)", said.stdout)
    assert found is not None, said
    return "v1" if int(found[1]) >= 34 else "v1beta1"


def _signing_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _answers_readyz(port: int, certificate: Path) -> bool:
    if not certificate.exists():
        return False
    try:
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
        try:
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
            return connection.getresponse().status == 200
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


def _kubeconfig(url: str, certificate: Path) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(certificate)}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
    )
