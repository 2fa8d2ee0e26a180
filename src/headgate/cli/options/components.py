"""The components of ``headgate run``, as ``--components`` and the configuration file name them."""

from __future__ import annotations

from typing import Final

COMPONENTS: Final = ("scheduler", "gates", "webhooks", "controllers", "quota", "jobs")
