"""Parses a container image reference to find out whether it has the tag ``latest``.

That decides the default pull policy. The grammar is that of the distribution project: an optional registry host, a
path, an optional tag, an optional digest. An invalid reference has no tag; the kubelet, not the API server, reports it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_DOMAIN_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH: Final = rf"{_PATH_PART}(?:/{_PATH_PART})*"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(rf"(?:{_HOST}/)?({_PATH})(?::({_TAG}))?(?:@({_DIGEST}))?")
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")

_HEX_DIGITS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_MAX_PATH: Final = 255
_DOCKER_HUB: Final = "docker.io"


def default_pull_policy(image: str) -> str:
    return "Always" if wants_latest(image) else "IfNotPresent"


@lru_cache(maxsize=4096)
def wants_latest(image: str) -> bool:
    """True if the image has the tag ``latest``, or neither a tag nor a digest."""
    if _IDENTIFIER.fullmatch(image):
        return False
    domain, remainder = _split_domain(image)
    remote = remainder.partition(":")[0]
    if remote.lower() != remote:
        return False
    match = _REFERENCE.fullmatch(f"{domain}/{remainder}")
    if match is None or len(match.group(1)) > _MAX_PATH:
        return False
    tag, digest = match.group(2), match.group(3)
    if digest is not None and not _is_digest(digest):
        return False
    return tag == "latest" or (tag is None and digest is None)


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if not slash:
        return _DOCKER_HUB, f"library/{image}"
    if first == "index.docker.io":
        domain, remainder = _DOCKER_HUB, rest
    elif first == "localhost" or "." in first or ":" in first or first.lower() != first:
        domain, remainder = first, rest
    else:
        domain, remainder = _DOCKER_HUB, image
    if domain == _DOCKER_HUB and "/" not in remainder:
        remainder = f"library/{remainder}"
    return domain, remainder


def _is_digest(digest: str) -> bool:
    algorithm, _, text = digest.partition(":")
    return len(text) == _HEX_DIGITS.get(algorithm) and text == text.lower()
