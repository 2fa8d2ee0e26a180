"""``python -m bench [NAME …]``: run all measurements, or those named."""

from __future__ import annotations

import os
import platform
import sys

from bench import apiserver, controllers, creates, cycle, size, store, transport, waiting

BENCHES = {
    "creates": creates.main,
    "apiserver": apiserver.main,
    "size": size.main,
    "store": store.main,
    "controllers": controllers.main,
    "transport": transport.main,
    "cycle": cycle.main,
    "waiting": waiting.main,
}


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        print(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for name in wanted:
        BENCHES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
