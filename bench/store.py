"""The store alone: the cost of a commit, of a start, of a backup, and of a hundred thousand objects.

A commit is measured as the server makes it: rows with their checksums and the head, one transaction and its sync, and
the high-water mark, synced too. Starting includes every check (pages, rows, head). The objects are pods of 2 KB.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from bench import report
from headgate.store import log_rows
from headgate.store.io.backup import back_up
from headgate.store.io.database_file import FILE
from headgate.store.io.journal import Journal
from headgate.store.item import Item
from headgate.store.memory import Store

OBJECTS: Final = 100_000
POD_BYTES: Final = 2_000

# In a separate process, whose memory is that of the store only.
_LOAD: Final = """
import os, sys, time
from pathlib import Path
from headgate.store.io.journal import Journal
def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = memory()
began, cpu = time.perf_counter(), time.process_time()
journal = Journal.open(Path(sys.argv[1]))
store = journal.load()
print(time.perf_counter() - began, time.process_time() - cpu, memory() - before)
journal.close(store.committed)
"""


def stage(store: Store, number: int) -> None:
    name, namespace = f"pod-{number}", f"team-{number % 20}"
    fields = {
        "metadata.name": name,
        "metadata.namespace": namespace,
        "spec.nodeName": "",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "default",
        "status.phase": "Pending",
    }
    uid = f"00000000-0000-4000-8000-{number:012d}"
    body = {"kind": "Pod", "metadata": {"name": name, "uid": uid}, "filling": ""}
    body["filling"] = "x" * (POD_BYTES - len(msgspec.json.encode(body)))
    labels = {"app": f"app-{number % 100}", "pod-template-hash": "5d4c8b7f6"}
    store.stage(Item("pods", namespace, name, uid, store.next_revision(), labels, fields, msgspec.json.encode(body)))


def commits(folder: Path, rows: int, count: int) -> tuple[str, str, str]:
    journal = Journal.open(folder)
    store = journal.load()
    times_ms: list[float] = []
    for number in range(count):
        for row in range(rows):
            stage(store, number * rows + row)
        began = time.perf_counter()
        journal.write(log_rows.CommitBatch(store.pending(), store.oldest, ()))
        times_ms.append((time.perf_counter() - began) * 1e3)
        store.commit(store.applied)
        if journal.uncheckpointed_bytes > 8 << 20:
            journal.checkpoint()
    journal.close(store.committed)
    middle, late = statistics.median(times_ms), sorted(times_ms)[int(len(times_ms) * 0.99)]
    return f"one commit of {rows} pods", f"{middle:.2f} ms (p99 {late:.1f} ms)", f"{rows / middle * 1e3:,.0f} pods/s"


def sync_ms(folder: Path) -> float:
    """One write of 16 KB and fdatasync, for comparison."""
    times: list[float] = []
    with (folder / "sync").open("wb") as file:
        for _ in range(200):
            began = time.perf_counter()
            file.write(b"x" * 16_384)
            file.flush()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def main() -> None:
    lines: list[tuple[str, str, str]] = []

    def note(line: tuple[str, str, str]) -> None:
        lines.append(line)
        print(f"  {line[0]:44} {line[1]:>28}   {line[2]}")

    print("\nthe store")
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as root:
        note(("one write of 16 KB and fdatasync", f"{sync_ms(Path(root)):.2f} ms", ""))
        for rows, count in ((1, 500), (10, 300), (100, 100)):
            note(commits(Path(root) / f"{rows}", rows, count))
        data = Path(root) / "data"
        journal = Journal.open(data)
        store = journal.load()
        for start in range(0, OBJECTS, 1_000):
            for number in range(start, start + 1_000):
                stage(store, number)
            journal.write(log_rows.CommitBatch(store.pending(), store.oldest, ()))
            store.commit(store.applied)
            journal.checkpoint()
        journal.close(store.committed)
        size = float((data / FILE).stat().st_size)
        note((f"file of {OBJECTS:,} pods", f"{size / (1 << 20):,.0f} MiB", f"{size / OBJECTS:,.0f} bytes each"))
        loaded = subprocess.run(
            [sys.executable, "-c", _LOAD, str(data)], capture_output=True, text=True, check=True
        ).stdout.split()
        wall_s, cpu_s, size = (float(each) for each in loaded)
        note((f"start with {OBJECTS:,} pods, checked", f"{wall_s:.1f} s", f"{cpu_s:.1f} s of CPU"))
        note((f"memory for {OBJECTS:,} pods", f"{size / (1 << 20):,.0f} MiB", f"{size / OBJECTS:,.0f} bytes each"))
        began = time.perf_counter()
        back_up(data, Path(root) / "copy.db")
        note((f"backup of {OBJECTS:,} pods, verified", f"{time.perf_counter() - began:.1f} s", ""))
    report.write("the store", report.table(("what", "figure", "that is"), lines))
