"""The static token file, in the format that kube-apiserver reads: one line per user.

    token,name,uid,"group,group"

The last column may be absent. The caller reads the file.
"""

from __future__ import annotations

import csv

from headgate.apiserver.authn.user import UserInfo


def parse_token_file(text: str) -> dict[str, UserInfo] | str:
    """The users by token, or a message. If a token occurs twice, the last line counts."""
    users: dict[str, UserInfo] = {}
    try:
        for number, row in enumerate(csv.reader(text.splitlines(), strict=True), 1):
            if not row:
                continue
            if len(row) < 3:
                return f"line {number} must have at least 3 columns (token, user name, user uid), found {len(row)}"
            token, name, uid, *rest = row
            if not token or not name:
                return f"line {number} has no {'user name' if token else 'token'}"
            users[token] = UserInfo(name, tuple(rest[0].split(",")) if rest and rest[0] else (), uid)
    except csv.Error as problem:
        return str(problem)
    return users
