"""The attributes of a request for the authorizer: a user, and a verb on a resource or on a path."""

from __future__ import annotations

from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apiserver.request.request_info import RequestInfo


def attributes_of(info: RequestInfo, user: str) -> AuthorizationAttributes:
    if not info.is_resource_request:
        return AuthorizationAttributes(user, info.verb, path=info.path)
    return AuthorizationAttributes(
        user=user,
        verb=info.verb,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        version=info.version,
    )
