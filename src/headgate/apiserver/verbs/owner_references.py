"""Owner references of a write: a repeated reference is stored once, and the client gets a warning."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apiserver.call import Call

_key_of: Final = msgspec.json.Encoder(order="sorted").encode  # equal references have equal keys, whatever their order


def drop_duplicates(call: Call, obj: dict[str, Any], *, admitted: bool) -> None:
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
