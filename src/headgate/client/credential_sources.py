"""Where credentials are looked for: an explicit kubeconfig, KUBECONFIG, the home folder, or the service account of the
pod.

Pure: the caller provides the environment. ``client/io/credentials.py`` opens what is found here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from headgate.client.kubeconfig import InlineOrFile, RESTConfig

MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def kubeconfig_paths(named: str, environment: Mapping[str, str]) -> list[str]:
    """Which files to read. One that is named must exist; those of a list may be absent."""
    if named:
        return [named]
    listed = [path for path in environment.get("KUBECONFIG", "").split(":") if path]
    if listed:
        return list(dict.fromkeys(listed))
    home = environment.get("HOME", "")
    return [posixpath.join(home, ".kube", "config")] if home else []


def in_cluster(environment: Mapping[str, str], namespace: str = "", mount: str = MOUNT) -> RESTConfig | None:
    """The service account of the pod that this process runs in, if it runs in one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    return RESTConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.strip() or "default",
        authority=InlineOrFile(file=posixpath.join(mount, "ca.crt")),
        token_file=posixpath.join(mount, "token"),
    )
