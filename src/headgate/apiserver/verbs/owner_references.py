"""Owner references of a write: a repeated reference is stored once, and the client gets a warning."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apiserver.request_context import RequestContext

# Equal references have equal keys, also if their fields are in a different order.
_key_of: Final = msgspec.json.Encoder(order="sorted").encode


def drop_repeated(call: RequestContext, obj: dict[str, Any], *, admitted: bool) -> None:
    """Removes repeated references from ``obj``. ``admitted``: after mutating admission, which the warning mentions."""
    references = obj["metadata"].get("ownerReferences")
    if not references or len(references) == 1:
        return
    kept: dict[bytes, Any] = {}
    dropped: list[str] = []
    for reference in references:
        key = _key_of(reference)
        if key in kept:
            dropped.append(reference.get("uid", ""))
        else:
            kept[key] = reference
    if not dropped:
        return
    obj["metadata"]["ownerReferences"] = list(kept.values())
    when = " after mutating admission happens" if admitted else ""
    call.warn(
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and"
        " may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(dropped)
    )
