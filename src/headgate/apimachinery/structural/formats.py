"""Formats of strings that the API server checks. A format that is not in the table is ignored."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from headgate.apimachinery.ip_addresses import is_valid_cidr_for_legacy_field, is_valid_ip_for_legacy_field
from headgate.kube.timestamps import parse_duration

FormatCheck = Callable[[str], bool]

_TIME_OF_DAY: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# The lookbehind prevents a search from every digit of a long number.
_DURATION_PART: Final = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]++)", re.ASCII)
# The names of each unit; the last one is a sufficient prefix.
_UNITS: Final = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_CREDIT_CARD: Final = re.compile(
    "4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_BYTE_OF_COLOR: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"


def known_format(name: str) -> FormatCheck | None:
    return _FORMATS.get(name.replace("-", ""))


def _pattern_check(pattern: str) -> FormatCheck:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> FormatCheck:
    return _pattern_check(rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}")


def _is_hostname(text: str) -> bool:
    """One label, or several that end in a domain of letters. Symbols and letters of any language are allowed."""
    labels = text.split(".")
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in labels):
        return False
    if len(labels) == 1:
        rest = text[1:].removeprefix("-")
        return bool(text) and len(rest) <= 62 and all(map(_is_label_char, text[:1] + rest))
    *parents, domain = labels
    return len(domain) >= 2 and all(map(_is_letter, domain)) and all(map(_is_label, parents))


def _is_label(label: str) -> bool:
    inner = label.replace("-", "")
    return bool(label) and label[0] != "-" and label[-1] != "-" and all(map(_is_label_char, inner))


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L"


def _is_label_char(char: str) -> bool:
    return unicodedata.category(char)[0] in "LS" or char in "0123456789"


def _is_uri(text: str) -> bool:
    """An absolute URI, or a path from the root."""
    if any(ord(char) < 0x20 or char == "\x7f" for char in text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if text.startswith("/"):
        return True
    return bool(parts.scheme) and " " not in parts.netloc


def _is_email(text: str) -> bool:
    address = re.fullmatch(r"(?:[^<>@]*<)?\s*([^\s<>@()\[\]\\,;:\"]+@[^\s<>@()\\,;:\"]+)\s*>?", text)
    if address is None or text.count("<") != text.count(">"):
        return False
    local, _, domain = address[1].partition("@")
    return all(part for part in local.split(".")) and all(part for part in domain.split("."))


def _is_ipv4(text: str) -> bool:
    return "." in text and not is_valid_ip_for_legacy_field(text)


def _is_ipv6(text: str) -> bool:
    return ":" in text and not is_valid_ip_for_legacy_field(text, strict=True)


def _is_cidr(text: str) -> bool:
    return not is_valid_cidr_for_legacy_field(text)


def _is_mac(text: str) -> bool:
    for separator, digits, counts in ((":", 2, (6, 8, 20)), ("-", 2, (6, 8, 20)), (".", 4, (3, 4, 10))):
        parts = text.split(separator)
        if len(parts) in counts:
            return all(re.fullmatch(f"[0-9A-Fa-f]{{{digits}}}", part) for part in parts)
    return False


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch("[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if char == "X" else int(char) for char in digits]
    return sum(position * value for position, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    total = sum(int(char) * (3 if index % 2 else 1) for index, char in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if _CREDIT_CARD.fullmatch(digits) is None:
        return False
    doubled = [int(char) * (2 if index % 2 else 1) for index, char in enumerate(reversed(digits))]
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def _is_ssn(text: str) -> bool:
    return len(text) == 11 and re.fullmatch("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}", text) is not None


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = (int(part) for part in found.groups())
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return month != 2 or day <= 28 or leap


def _is_date_time(text: str) -> bool:
    date, _, rest = text.lower().partition("t")
    found = _TIME_OF_DAY.fullmatch(rest.partition("t")[0])
    if not _is_date(date) or found is None:
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_duration(text: str) -> bool:
    if not isinstance(parse_duration(text), str):
        return True
    for _, unit in _DURATION_PART.findall(text):
        word = unit.lower()
        if any(word in names or word.startswith(names[-1]) for names in _UNITS):
            return True
    return False


_FORMATS: Final[dict[str, FormatCheck]] = {
    "bsonobjectid": _pattern_check("[0-9a-fA-F]{24}"),
    "byte": _pattern_check("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _pattern_check("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: (
        len(text) <= 253
        and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", text) is not None
    ),
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None,
    "mac": _is_mac,
    "password": lambda text: True,
    "rgbcolor": _pattern_check(rf"rgb\({_BYTE_OF_COLOR},{_BYTE_OF_COLOR},{_BYTE_OF_COLOR}\)"),
    "ssn": _is_ssn,
    "uri": _is_uri,
    "uuid": _uuid("[0-9a-f]{4}", "[0-9a-f]{4}"),
    "uuid3": _uuid("3[0-9a-f]{3}", "[0-9a-f]{4}"),
    "uuid4": _uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
}
