"""Built-in admission, called around every write.

``admit_*`` may change the new object before it is prepared and validated; ``validate_*`` only refuses, at the very
end. The plugins themselves are pure functions in ``apiserver/builtin/``; here they get their view of the cluster.
"""

from __future__ import annotations

from typing import Any

from headgate.apiserver.call import Call
from headgate.kube import status

Object = dict[str, Any]


def admit_create(call: Call, obj: Object) -> status.ApiError | None:
    return None


def admit_update(call: Call, new: Object, old: Object) -> status.ApiError | None:
    return None


def validate_create(call: Call, obj: Object) -> status.ApiError | None:
    return None


def validate_update(call: Call, new: Object, old: Object) -> status.ApiError | None:
    return None


def validate_delete(call: Call, obj: Object) -> status.ApiError | None:
    return None
