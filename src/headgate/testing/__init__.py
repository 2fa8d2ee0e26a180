"""A Kubernetes cluster for the tests of other software: ``with Cluster() as cluster: ...``.

``docs/testing.md`` is the guide. Names are imported when they are used, so that the pytest plugin costs nothing in test
runs that do not use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headgate.testing.client import ClusterClient, RequestRefused
    from headgate.testing.cluster import ClusterStartFailed
    from headgate.testing.cluster import EmbeddedCluster as Cluster
    from headgate.testing.waiting import NotInTime, wait_until

__all__ = ["Cluster", "ClusterClient", "ClusterStartFailed", "NotInTime", "RequestRefused", "wait_until"]

_PLACES: Final = {
    "Cluster": ("cluster", "EmbeddedCluster"),
    "ClusterClient": ("client", "ClusterClient"),
    "ClusterStartFailed": ("cluster", "ClusterStartFailed"),
    "NotInTime": ("waiting", "NotInTime"),
    "RequestRefused": ("client", "RequestRefused"),
    "wait_until": ("waiting", "wait_until"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
