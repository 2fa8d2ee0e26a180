"""Validation of names: DNS labels and subdomains, label keys and values, port and variable names.

Every ``is_…`` function returns a list of error texts, empty for a valid text; the texts are those of Kubernetes' API
server. ``kube/validation/`` adds field paths. IP addresses and CIDR blocks are in ``apimachinery/ip_addresses.py``.

Lengths are counted in bytes, as the API does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Final

MAX_LABEL_BYTES: Final = 63
MAX_SUBDOMAIN_BYTES: Final = 253
MAX_LABEL_VALUE_BYTES: Final = 63
MAX_INT32: Final = (1 << 31) - 1

_ALNUM_ENDS: Final = "and must start and end with an alphanumeric character"

_DNS1123_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN: Final = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_UNDERSCORE_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN: Final = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_DNS1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD_SUBDOMAIN: Final = rf"\*\.{_DNS1123_SUBDOMAIN}"
_LABEL_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_LABEL_NAME})?"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_PERCENT: Final = "[0-9]+%"
_HTTP_HEADER: Final = "[-A-Za-z0-9]+"
_ENV_VAR: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_LABEL_NAME_TEXT: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
_LABEL_NAME_EXAMPLES: Final = ("MyName", "my.name", "123-abc")


def max_len_error(characters: int) -> str:
    return f"must be no more than {characters} characters"


def max_bytes_error(length: int) -> str:
    return f"must be no more than {length} bytes"


def empty_error() -> str:
    return "must be non-empty"


def inclusive_range_error(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def regex_error(text: str, pattern: str, *examples: str) -> str:
    """There are two blanks before each ``or``, as in Kubernetes."""
    eg = "e.g. " + " or ".join(f"'{each}', " for each in examples) if examples else ""
    return f"{text} ({eg}regex used for validation is '{pattern}')"


class _Rule:
    """A pattern with the error message for texts that do not match it."""

    def __init__(self, pattern: str, text: str, *examples: str) -> None:
        self.matches: Final = re.compile(pattern).fullmatch
        self.message: Final = regex_error(text, pattern, *examples)


_RULES: Final = {
    "dns1123 label": _Rule(
        _DNS1123_LABEL,
        f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}",
        "my-name",
        "123-abc",
    ),
    "dns1123 subdomain": _Rule(
        _DNS1123_SUBDOMAIN,
        f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM_ENDS}",
        "example.com",
    ),
    "underscore subdomain": _Rule(
        _UNDERSCORE_SUBDOMAIN,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        + _ALNUM_ENDS,
        "example.com",
    ),
    "wildcard subdomain": _Rule(
        _WILDCARD_SUBDOMAIN,
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
        "*.example.com",
    ),
    "dns1035 label": _Rule(
        _DNS1035_LABEL,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character",
        "my-name",
        "abc-123",
    ),
    "label name": _Rule(_LABEL_NAME, _LABEL_NAME_TEXT, *_LABEL_NAME_EXAMPLES),
    "label value": _Rule(
        _LABEL_VALUE,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " + _ALNUM_ENDS,
        "MyValue",
        "my_value",
        "12345",
    ),
    "c identifier": _Rule(
        _C_IDENTIFIER,
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
        "characters or '_'",
        "my_name",
        "MY_NAME",
        "MyName",
    ),
    "percent": _Rule(
        _PERCENT, "a valid percent string must be a numeric string followed by an ending '%'", "1%", "93%"
    ),
    "http header": _Rule(
        _HTTP_HEADER, "a valid HTTP header must consist of alphanumeric characters or '-'", "X-Header-Name"
    ),
    "env var": _Rule(
        _ENV_VAR,
        "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must "
        "not start with a digit",
        "my.env-name",
        "MY_ENV.NAME",
        "MyEnvName1",
    ),
    "config key": _Rule(
        _CONFIG_KEY,
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        "key.name",
        "KEY_NAME",
        "key-name",
    ),
    "http path": _Rule(_HTTP_PATH, "Invalid path"),
}

_LABEL_KEY_MESSAGE: Final = (
    f"a valid label key {_RULES['label name'].message}"
    " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _check(rule: str, text: str, max_bytes: int | None = None) -> list[str]:
    messages = []
    if max_bytes is not None and _byte_length(text) > max_bytes:
        messages.append(max_len_error(max_bytes))
    if _RULES[rule].matches(text) is None:
        messages.append(_RULES[rule].message)
    return messages


def _cached(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Caches short valid texts, because names and labels repeat in many objects."""

    @lru_cache(maxsize=8192)
    def is_valid(text: str) -> bool:
        return not check(text)

    @wraps(check)
    def cached(text: str) -> list[str]:
        return [] if len(text) <= MAX_SUBDOMAIN_BYTES and is_valid(text) else check(text)

    return cached


@_cached
def is_dns1123_label(text: str) -> list[str]:
    messages = _check("dns1123 label", text, MAX_LABEL_BYTES)
    if messages and _RULES["dns1123 subdomain"].matches(text) and not _RULES["dns1123 label"].matches(text):
        messages[-1] = "must not contain dots"
    return messages


@_cached
def is_dns1123_subdomain(text: str) -> list[str]:
    return _check("dns1123 subdomain", text, MAX_SUBDOMAIN_BYTES)


def is_dns1123_subdomain_with_underscore(text: str) -> list[str]:
    return _check("underscore subdomain", text, MAX_SUBDOMAIN_BYTES)


def is_wildcard_dns1123_subdomain(text: str) -> list[str]:
    return _check("wildcard subdomain", text, MAX_SUBDOMAIN_BYTES)


def is_dns1035_label(text: str) -> list[str]:
    return _check("dns1035 label", text, MAX_LABEL_BYTES)


@_cached
def is_qualified_name(text: str) -> list[str]:
    """A label key: an optional DNS subdomain and ``/``, then a name. Also the form of gates, resources and taints."""
    parts = text.split("/")
    if len(parts) > 2:
        return [_LABEL_KEY_MESSAGE]
    messages = []
    name = parts[-1]
    if len(parts) == 2:
        prefix = parts[0]
        if not prefix:
            messages.append(f"prefix part {empty_error()}")
        else:
            if _byte_length(prefix) > MAX_SUBDOMAIN_BYTES:
                messages.append(f"prefix part {max_bytes_error(MAX_SUBDOMAIN_BYTES)}")
            messages += [f"prefix part {each}" for each in _check("dns1123 subdomain", prefix)]
    if not name:
        messages.append(f"name part {empty_error()}")
    elif _byte_length(name) > MAX_LABEL_BYTES:
        messages.append(f"name part {max_bytes_error(MAX_LABEL_BYTES)}")
    return messages + [f"name part {each}" for each in _check("label name", name)]


@_cached
def is_valid_label_value(text: str) -> list[str]:
    messages = [max_bytes_error(MAX_LABEL_VALUE_BYTES)] if _byte_length(text) > MAX_LABEL_VALUE_BYTES else []
    return messages + _check("label value", text)


def is_c_identifier(text: str) -> list[str]:
    return _check("c identifier", text)


def is_config_map_key(text: str) -> list[str]:
    return _check("config key", text, MAX_SUBDOMAIN_BYTES) + _check_dots(text)


def is_strict_env_var_name(text: str) -> list[str]:
    return _check("env var", text) + _check_dots(text)


def is_env_var_name(text: str) -> list[str]:
    """Since Kubernetes 1.34 the name of a variable may contain any printable ASCII character except ``=``."""
    messages = [] if text else [f"environment variable name {empty_error()}"]
    if any(not " " <= char <= "~" or char == "=" for char in text):
        messages.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return messages


def is_valid_percent(text: str) -> list[str]:
    return _check("percent", text)


def is_http_header_name(text: str) -> list[str]:
    return _check("http header", text)


def is_http_path(text: str) -> list[str]:
    return _check("http path", text)


def _check_dots(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


def is_in_range(number: int, low: int, high: int) -> list[str]:
    return [] if low <= number <= high else [inclusive_range_error(low, high)]


def is_valid_port_num(port: int) -> list[str]:
    return is_in_range(port, 1, 65535)


def is_valid_user_id(uid: int) -> list[str]:
    return is_in_range(uid, 0, MAX_INT32)


def is_valid_group_id(gid: int) -> list[str]:
    return is_in_range(gid, 0, MAX_INT32)


_PORT_NAME_RULES: Final[Sequence[tuple[Callable[[str], object], str]]] = (
    (lambda text: _byte_length(text) > 15, max_len_error(15)),
    (
        lambda text: not re.fullmatch("[-a-z0-9]+", text),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    ),
    (lambda text: not re.search("[a-z]", text), "must contain at least one letter (a-z)"),
    (lambda text: "--" in text, "must not contain consecutive hyphens"),
    (lambda text: text.startswith("-") or text.endswith("-"), "must not begin or end with a hyphen"),
)


def is_valid_port_name(text: str) -> list[str]:
    return [message for is_invalid, message in _PORT_NAME_RULES if is_invalid(text)]


def is_decimal_integer(text: str) -> list[str]:
    """Canonical decimals only: no plus, no leading zeros."""
    if not text:
        return [empty_error()]
    return [] if re.fullmatch("0|-?[1-9][0-9]*", text) else ["must be a valid decimal integer in canonical form"]


NameRule = Callable[[str, bool], list[str]]
"""The name rule of a kind: ``(name, prefix)``. ``prefix`` is true for ``generateName``, which may end in a dash."""


def name_is_dns_subdomain(name: str, prefix: bool) -> list[str]:
    return is_dns1123_subdomain(_mask_trailing_dash(name) if prefix else name)


def name_is_long_name(name: str, prefix: bool) -> list[str]:
    """The rule of declarative validation: the limit is in bytes, and ``generateName`` is not checked."""
    if prefix:
        return []
    limit = max_len_error(MAX_SUBDOMAIN_BYTES)
    return [max_bytes_error(MAX_SUBDOMAIN_BYTES) if each == limit else each for each in is_dns1123_subdomain(name)]


def name_is_dns_label(name: str, prefix: bool) -> list[str]:
    return is_dns1123_label(_mask_trailing_dash(name) if prefix else name)


def name_is_dns1035_label(name: str, prefix: bool) -> list[str]:
    return is_dns1035_label(_mask_trailing_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool) -> list[str]:
    """For kinds whose names only need to fit in a URL (RBAC): no ``/``, no ``%``, not ``.`` or ``..``."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in name]


def _mask_trailing_dash(name: str) -> str:
    # Kubernetes also drops the character before the dash, so that "a_-" is a valid prefix.
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
