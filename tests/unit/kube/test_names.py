"""Error messages for names. The long texts are those that users of ``kubectl`` read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.kube import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_KEY = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)

Rule = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("rule", "good"),
    [
        (names.is_dns1123_label, ["a", "1", "a-b", "x" * 63]),
        (names.is_dns1123_subdomain, ["a", "a.b-c.d", "x" * 63 + ".y"]),
        (names.is_dns1123_subdomain_with_underscore, ["_a._b", "a_b.c"]),
        (names.is_wildcard_dns1123_subdomain, ["*.example.com"]),
        (names.is_dns1035_label, ["a1", "a-1"]),
        (names.is_qualified_name, ["a", "A_b.c", "example.com/MyName", "x" * 253 + "/" + "y" * 63]),
        (names.is_valid_label_value, ["", "a", "A.b_c-1", "x" * 63]),
        (names.is_c_identifier, ["_a", "A1"]),
        (names.is_config_map_key, ["a", ".a", "a..b"]),
        (names.is_strict_env_var_name, ["a", ".a", "_A-1.x"]),
        (names.is_env_var_name, ["1", "a b", "~", "a:b"]),
        (names.is_valid_percent, ["0%", "100%"]),
        (names.is_http_header_name, ["X-Foo"]),
        (names.is_http_path, ["/a/b", "a%20b"]),
        (names.is_valid_port_name, ["http", "a-1", "x" * 15]),
        (names.is_decimal_integer, ["0", "-1", "12345678901234567890"]),
    ],
)
def test_valid_names_give_no_errors(rule: Rule, good: list[str]) -> None:
    assert {text: rule(text) for text in good} == {text: [] for text in good}


@pytest.mark.parametrize(
    ("rule", "text", "messages"),
    [
        (names.is_dns1123_label, "A", [LABEL]),
        (names.is_dns1123_label, "", [LABEL]),
        (names.is_dns1123_label, "a.b", ["must not contain dots"]),
        (names.is_dns1123_label, "a\n", [LABEL]),
        (names.is_dns1123_label, "x" * 64, ["must be no more than 63 characters"]),
        (names.is_dns1123_label, "x" * 64 + ".y", ["must be no more than 63 characters", "must not contain dots"]),
        (names.is_dns1123_subdomain, "A.b", [SUBDOMAIN]),
        (names.is_dns1123_subdomain, "x" * 254, ["must be no more than 253 characters"]),
        (names.is_dns1035_label, "x" * 64, ["must be no more than 63 characters"]),
        (names.is_qualified_name, "", ["name part must be non-empty", NAME_PART]),
        (names.is_qualified_name, "a/b/c", [LABEL_KEY]),
        (names.is_qualified_name, "/x", ["prefix part must be non-empty"]),
        (names.is_qualified_name, "Ex.com/x", [f"prefix part {SUBDOMAIN}"]),
        (names.is_qualified_name, "x" * 254 + "/y", ["prefix part must be no more than 253 bytes"]),
        (names.is_qualified_name, "x" * 64, ["name part must be no more than 63 bytes"]),
        (names.is_qualified_name, "é" * 32, ["name part must be no more than 63 bytes", NAME_PART]),
        (names.is_valid_label_value, "x" * 64, ["must be no more than 63 bytes"]),
        (names.is_env_var_name, "", ["environment variable name must be non-empty"]),
        (names.is_valid_port_name, "", [
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "must contain at least one letter (a-z)",
        ]),
        (names.is_valid_port_name, "-1--2", [
            "must contain at least one letter (a-z)",
            "must not contain consecutive hyphens",
            "must not begin or end with a hyphen",
        ]),
        (names.is_valid_port_name, "a" * 16, ["must be no more than 15 characters"]),
        (names.is_decimal_integer, "007", ["must be a valid decimal integer in canonical form"]),
        (names.is_decimal_integer, "-", ["must be a valid decimal integer in canonical form"]),
        (names.is_decimal_integer, "", ["must be non-empty"]),
    ],
)  # fmt: skip
def test_invalid_names_give_the_error_texts_of_the_api_server(rule: Rule, text: str, messages: list[str]) -> None:
    assert rule(text) == messages


@pytest.mark.parametrize(
    ("key", "message"), [(".", "must not be '.'"), ("..", "must not be '..'"), ("..a", "must not start with '..'")]
)
def test_a_config_key_or_variable_name_must_not_start_with_two_dots(key: str, message: str) -> None:
    assert names.is_config_map_key(key) == [message]
    assert names.is_strict_env_var_name(key) == [message]


@pytest.mark.parametrize("text", ["a=b", "tab\t", "é", "\x7f"])
def test_a_variable_name_is_printable_ascii_without_the_equals_sign(text: str) -> None:
    assert names.is_env_var_name(text) == [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        (
            names.is_wildcard_dns1123_subdomain,
            r"'\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (names.is_dns1035_label, "'[a-z]([-a-z0-9]*[a-z0-9])?')"),
        (names.is_c_identifier, "'[A-Za-z_][A-Za-z0-9_]*')"),
        (names.is_config_map_key, "'[-._a-zA-Z0-9]+')"),
        (names.is_valid_percent, "'[0-9]+%')"),
        (names.is_http_header_name, "'[-A-Za-z0-9]+')"),
        (names.is_http_path, r"'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"),
    ],
)
def test_the_error_for_a_malformed_name_contains_the_pattern(rule: Rule, pattern: str) -> None:
    (message,) = rule("#")
    assert message.endswith(f"regex used for validation is {pattern}")


def test_numbers_have_ranges() -> None:
    assert names.is_valid_port_num(0) == ["must be between 1 and 65535, inclusive"]
    assert names.is_valid_port_num(65535) == []
    assert (
        names.is_valid_user_id(-1)
        == names.is_valid_group_id(1 << 31)
        == ["must be between 0 and 2147483647, inclusive"]
    )
    assert names.is_in_range(5, 1, 5) == []


def test_a_generate_name_may_end_in_a_dash_and_a_name_may_not() -> None:
    assert names.name_is_dns_subdomain("web-", True) == []
    assert names.name_is_dns_subdomain("web-", False) == [SUBDOMAIN]
    assert names.name_is_dns_label("web.x-", True) == ["must not contain dots"]
    assert names.name_is_dns1035_label("web-", True) == []
    assert names.name_is_dns_subdomain("-", True) == [SUBDOMAIN]


def test_a_path_segment_name_must_not_contain_a_slash_or_percent_sign() -> None:
    assert names.name_is_path_segment("system:admin", False) == []
    assert names.name_is_path_segment("..", False) == ["may not be '..'"]
    assert names.name_is_path_segment("..", True) == []
    assert names.name_is_path_segment("a/b%", True) == ["may not contain '/'", "may not contain '%'"]
