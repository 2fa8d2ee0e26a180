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


def kubeconfig_paths(explicit: str, environment: Mapping[str, str]) -> list[str]:
    """The files to read. An explicit file must exist; files of a list may be absent."""
    if explicit:
        return [explicit]
    listed = [path for path in environment.get("KUBECONFIG", "").split(":") if path]
    if listed:
        return list(dict.fromkeys(listed))
    home = environment.get("HOME", "")
    return [posixpath.join(home, ".kube", "config")] if home else []


def in_cluster(environment: Mapping[str, str], namespace: str = "", mount: str = MOUNT) -> RESTConfig | None:
    """The configuration for the service account of this pod; None if the process does not run in a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    return RESTConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.strip() or "default",
        authority=InlineOrFile(file=posixpath.join(mount, "ca.crt")),
        token_file=posixpath.join(mount, "token"),
    )
