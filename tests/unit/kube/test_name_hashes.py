"""Hashes in names, against the published sums of FNV."""

from __future__ import annotations

from headgate.kube.name_hashes import fnv1, fnv1a, safe_encode


def test_sums_are_those_of_fnv() -> None:
    assert (fnv1(b""), fnv1(b"foobar")) == (0x811C9DC5, 0x31F0B262)
    assert (fnv1a(b""), fnv1a(b"foobar")) == (0x811C9DC5, 0xBF9CF968)


def test_each_digit_becomes_one_letter() -> None:
    assert safe_encode(1234567890) == "56789bcdf4"
