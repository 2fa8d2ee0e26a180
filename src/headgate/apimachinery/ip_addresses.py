"""IP addresses and CIDR blocks, with the error texts of Kubernetes' API server.

Old API fields accept several notations of an address (leading zeros, IPv4 mapped into IPv6); new ones accept only the
canonical form of RFC 5952. ``is_valid_ip_for_legacy_field`` is for old fields, ``is_valid_ip`` for new ones; there are
two such functions for CIDR blocks. :func:`warnings_for_ip` returns a warning with the canonical form. Other names are
in ``kube/names.py``.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

from headgate.kube.field_errors import quote

_IPV4: Final = re.compile(r"0*([0-9]{1,3})\.0*([0-9]{1,3})\.0*([0-9]{1,3})\.0*([0-9]{1,3})", re.ASCII)
_EMBEDDED: Final = re.compile(r"(.*:)([0-9.]+)", re.ASCII)
_LONG_GROUP: Final = re.compile(r"\b0+([0-9A-Fa-f]{4})\b", re.ASCII)
_PREFIX_LENGTH: Final = re.compile("[0-9]+")

Address = IPv4Address | IPv6Address


class _Cidr(NamedTuple):
    address: Address
    length: int
    has_leading_zeros: bool  # in the address or the prefix length
    mapped: bool  # written as IPv4 mapped into IPv6

    @property
    def network(self) -> Address:
        host_bits = self.address.max_prefixlen - self.length
        bits = int(self.address) >> host_bits << host_bits
        return IPv4Address(bits) if self.address.version == 4 else IPv6Address(bits)


def parse_ip(text: str) -> Address | None:
    """The address. Leading zeros in IPv4 are accepted, and an IPv4 address mapped into IPv6 is returned as IPv4."""
    if ":" not in text:
        return _ipv4(text)
    embedded = _EMBEDDED.fullmatch(text)
    if embedded is not None and "." in embedded.group(2):
        tail = _ipv4(embedded.group(2))
        if tail is None:
            return None
        text = embedded.group(1) + str(tail)
    address = _ipv6(_LONG_GROUP.sub(r"\1", text))
    mapped = None if address is None else address.ipv4_mapped
    return address if mapped is None else mapped


def _ipv4(text: str) -> IPv4Address | None:
    match = _IPV4.fullmatch(text)
    if match is None:
        return None
    octets = [int(each) for each in match.groups()]
    return IPv4Address(bytes(octets)) if max(octets) <= 255 else None


def _ipv6(text: str) -> IPv6Address | None:
    if "%" in text:
        return None  # the API does not accept zones
    try:
        return IPv6Address(text)
    except AddressValueError:
        return None


def _has_leading_zeros(text: str) -> bool:
    """In an IPv4 address or the IPv4 part of an IPv6 address. A hexadecimal group may have them, up to four digits."""
    tail = text.rpartition(":")[2]
    if _LONG_GROUP.search(text):
        return True
    return "." in tail and any(len(octet) > 1 and octet.startswith("0") for octet in tail.split("."))


def is_valid_ip_for_legacy_field(text: str, strict: bool = False) -> list[str]:
    """For fields that existed before strict checking. ``strict`` is the alpha gate ``StrictIPCIDRValidation``."""
    address = parse_ip(text)
    if address is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if not strict:
        return []
    if _has_leading_zeros(text):
        return ["must not have leading 0s"]
    return ["must not be an IPv4-mapped IPv6 address"] if address.version == 4 and ":" in text else []


def is_valid_ip(text: str) -> list[str]:
    """For new fields: canonical form only."""
    messages = is_valid_ip_for_legacy_field(text, strict=True)
    address = parse_ip(text)
    if not messages and address is not None and str(address) != text:
        messages.append(f"must be in canonical form ({quote(str(address))})")
    return messages


def warnings_for_ip(path: str, text: str) -> list[str]:
    """Warnings for an address that a legacy field accepts."""
    address = parse_ip(text)
    if address is None:
        return []
    if is_valid_ip_for_legacy_field(text, strict=True):
        return [
            f"{path}: non-standard IP address {quote(text)} will be considered invalid in a future Kubernetes release: "
            f"use {quote(str(address))}"
        ]
    if address.version == 6 and str(address) != text:
        return [f"{path}: IPv6 address {quote(text)} should be in RFC 5952 canonical format ({quote(str(address))})"]
    return []


def _parse_cidr(text: str) -> _Cidr | None:
    left, slash, length_text = text.partition("/")
    address = parse_ip(left)
    if address is None or not slash or _PREFIX_LENGTH.fullmatch(length_text) is None or len(length_text) > 16:
        return None
    length = int(length_text)
    mapped = address.version == 4 and ":" in left
    if length > (128 if ":" in left else 32):
        return None
    if mapped:
        # The length counts from the front of the IPv6 form.
        if length < 96:
            address = IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed)
        else:
            length -= 96
    has_leading_zeros = _has_leading_zeros(left) or (len(length_text) > 1 and length_text.startswith("0"))
    return _Cidr(address, length, has_leading_zeros, mapped)


def is_valid_cidr_for_legacy_field(text: str, strict: bool = False) -> list[str]:
    cidr = _parse_cidr(text)
    if cidr is None:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    if not strict:
        return []
    if cidr.has_leading_zeros:
        return ["must not have leading 0s in IP or prefix length"]
    if cidr.mapped:
        return ["must not have an IPv4-mapped IPv6 address"]
    return ["must not have bits set beyond the prefix length"] if cidr.network != cidr.address else []


def is_valid_cidr(text: str) -> list[str]:
    """For new fields: a network in canonical form, such as ``192.168.1.0/24``."""
    messages = is_valid_cidr_for_legacy_field(text, strict=True)
    cidr = _parse_cidr(text)
    if not messages and cidr is not None and text != f"{cidr.network}/{cidr.length}":
        messages.append(f"must be in canonical form ({quote(f'{cidr.network}/{cidr.length}')})")
    return messages


def is_valid_interface_address(text: str) -> list[str]:
    """An address with the length of its network, such as ``192.168.1.5/24``, in canonical form."""
    cidr = _parse_cidr(text)
    if cidr is None:
        return ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]
    form = f"{cidr.address}/{cidr.length}"
    return [] if text == form else [f"must be in canonical form ({quote(form)})"]


def warnings_for_cidr(path: str, text: str) -> list[str]:
    cidr = _parse_cidr(text)
    if cidr is None:
        return []
    network = f"{cidr.network}/{cidr.length}"
    warnings = []
    if cidr.network != cidr.address:
        single = f"{cidr.address}/{cidr.address.max_prefixlen}"
        warnings.append(
            f"{path}: CIDR value {quote(text)} is ambiguous in this context "
            f"(should be {quote(network)} or {quote(single)}?)"
        )
    if cidr.has_leading_zeros or cidr.mapped:
        warnings.append(
            f"{path}: non-standard CIDR value {quote(text)} will be considered invalid in a future Kubernetes release: "
            f"use {quote(network)}"
        )
    if not warnings and cidr.address.version == 6 and text != network:
        warnings.append(
            f"{path}: IPv6 CIDR value {quote(text)} should be in RFC 5952 canonical format ({quote(network)})"
        )
    return warnings
