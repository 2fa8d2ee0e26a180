"""A request in the terms of authorization: a user, and a verb on a resource or on a path."""

from __future__ import annotations

from headgate.apiserver.request_info import RequestInfo
from headgate.kube.status import Attributes


def attributes_of(info: RequestInfo, user: str) -> Attributes:
    if not info.is_resource_request:
        return Attributes(user, info.verb, path=info.path)
    return Attributes(
        user=user,
        verb=info.verb,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        version=info.version,
    )
