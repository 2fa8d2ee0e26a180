"""A process that stands for election and notes every moment at which it may write.

``python election_candidate.py KUBECONFIG LEASE NAME FILE``; a line is a reading of the clock that counts while stopped,
taken before the fence is asked, so a line is never later than the moment it stands for.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.leader_elector import LeaderElector, clock_s, new_identity
from headgate.client.kubeconfig import RESTConfig
from headgate.client.leader_election import LeaderElectionConfig
from headgate.http.transport import Transport

TIMING = LeaderElectionConfig(lease_s=4, renew_s=2.5, retry_s=0.5)


async def main(kubeconfig: str, lease: str, name: str, file: str) -> None:
    access = find_rest_config(kubeconfig)
    assert isinstance(access, RESTConfig), access

    @contextlib.asynccontextmanager
    async def reach() -> AsyncIterator[Transport]:
        transport = HTTPTransport(access)
        try:
            yield transport
        finally:
            await transport.close()

    elector = LeaderElector(reach, "default", lease, f"{name}-{new_identity()}", TIMING)
    with Path(file).open("a", buffering=1) as notes:

        async def lead() -> None:
            while True:
                now_s = clock_s()
                if elector.write_budget_s() > 0:
                    notes.write(f"{now_s}\n")
                await asyncio.sleep(0.02)

        task = asyncio.create_task(elector.run(lead))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.wait([task])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
