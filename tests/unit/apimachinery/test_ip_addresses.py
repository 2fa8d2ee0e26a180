"""IP addresses and CIDRs, in legacy and in new fields."""

from __future__ import annotations

import pytest

from headgate.apimachinery import ip_addresses

NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


@pytest.mark.parametrize(
    "text", ["1.2.3.4", "::1", "01.2.3.4", "::ffff:1.2.3.4", "FE80::1", "::ffff:01.2.3.4", "0FE80::1"]
)
def test_a_legacy_field_accepts_non_canonical_addresses(text: str) -> None:
    assert ip_addresses.is_valid_ip_for_legacy_field(text) == []


@pytest.mark.parametrize("text", ["", "1.2.3", "1.2.3.256", "fe80::1%eth0", "1::2::3", "12345::", "1.2.3.4/8", "a"])
def test_a_text_that_is_not_an_address_is_always_rejected(text: str) -> None:
    assert ip_addresses.is_valid_ip_for_legacy_field(text) == [NO_IP]
    assert ip_addresses.is_valid_ip(text) == [NO_IP]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("10.0.0.1", []),
        ("2001:db8::1", []),
        ("010.0.0.1", ["must not have leading 0s"]),
        ("::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
        ("FE80::1", ['must be in canonical form ("fe80::1")']),
    ],
)
def test_a_new_field_accepts_only_canonical_addresses(text: str, messages: list[str]) -> None:
    assert ip_addresses.is_valid_ip(text) == messages


def test_a_non_canonical_address_gets_a_warning() -> None:
    assert ip_addresses.warnings_for_ip("f", "1.2.3.4") == []
    assert ip_addresses.warnings_for_ip("f", "no address") == []
    assert ip_addresses.warnings_for_ip("f", "01.2.3.4") == [
        'f: non-standard IP address "01.2.3.4" will be considered invalid in a future Kubernetes release: use "1.2.3.4"'
    ]
    assert ip_addresses.warnings_for_ip("f", "FE80::1") == [
        'f: IPv6 address "FE80::1" should be in RFC 5952 canonical format ("fe80::1")'
    ]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("10.0.0.0/8", []),
        ("0.0.0.0/0", []),
        ("fe80::/10", []),
        ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
        ("010.0.0.0/8", ["must not have leading 0s in IP or prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
        ("FE80::/10", ['must be in canonical form ("fe80::/10")']),
        ("10.0.0.0/33", [NO_CIDR]),
        ("10.0.0.0", [NO_CIDR]),
        ("10.0.0.0/+8", [NO_CIDR]),
        ("::/129", [NO_CIDR]),
    ],
)
def test_a_new_field_accepts_only_canonical_cidrs(text: str, messages: list[str]) -> None:
    assert ip_addresses.is_valid_cidr(text) == messages


@pytest.mark.parametrize("text", ["10.0.0.1/8", "010.0.0.0/08", "::ffff:1.2.3.0/120", "FE80::/10"])
def test_a_legacy_field_accepts_non_canonical_cidrs(text: str) -> None:
    assert ip_addresses.is_valid_cidr_for_legacy_field(text) == []


def test_an_interface_address_keeps_its_host_bits() -> None:
    assert ip_addresses.is_valid_interface_address("10.0.0.1/8") == []
    assert ip_addresses.is_valid_interface_address("010.0.0.1/8") == ['must be in canonical form ("10.0.0.1/8")']
    assert ip_addresses.is_valid_interface_address("x") == [
        "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    ]


def test_a_non_canonical_cidr_gets_a_warning() -> None:
    assert ip_addresses.warnings_for_cidr("f", "10.0.0.0/8") == ip_addresses.warnings_for_cidr("f", "x") == []
    assert ip_addresses.warnings_for_cidr("f", "10.0.0.1/8") == [
        'f: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)'
    ]
    assert ip_addresses.warnings_for_cidr("f", "10.0.0.0/08") == [
        'f: non-standard CIDR value "10.0.0.0/08" will be considered invalid in a future Kubernetes release: '
        'use "10.0.0.0/8"'
    ]
    assert ip_addresses.warnings_for_cidr("f", "FE80::/10") == [
        'f: IPv6 CIDR value "FE80::/10" should be in RFC 5952 canonical format ("fe80::/10")'
    ]
