from __future__ import annotations

from pathlib import Path

import pytest

from headgate.recording.blocks import MAGIC, BlockDecoder, encode_block
from headgate.recording.changes import HistoryEvent, SessionStarted
from headgate.recording.io.recording_file import (
    RecordingError,
    RecordingReader,
    RecordingWriter,
    is_recording,
    name_key,
)
from unit.recording.histories import some_records


def write(path: Path, blocks: int = 3, hashed: bool = False) -> list[int]:
    """A file with several blocks; returns the end of each."""
    writer = RecordingWriter(path, hashed=hashed)
    writer.add([writer.table.record_notice(SessionStarted(1.0, "1", hashed, ("pods",)))])
    ends = []
    for _ in range(blocks):
        writer.add(some_records(writer.table, 6))
        writer.flush()
        ends.append(writer.size_bytes)
    writer.close()
    return ends


def read(path: Path) -> tuple[list[HistoryEvent], RecordingReader]:
    reader = RecordingReader(path)
    return list(reader.events()), reader


def test_a_file_cut_at_any_byte_is_read_up_to_the_last_whole_block(tmp_path: Path) -> None:
    path = tmp_path / "a.hgr"
    ends = write(path)
    whole, counts = path.read_bytes(), {}
    for end in ends:
        path.write_bytes(whole[:end])
        events, reader = read(path)
        assert reader.damage is None
        counts[end] = len(events)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        events, reader = read(path)
        sound = max((end for end in ends if end <= size), default=0)
        assert len(events) == counts.get(sound, 0)
        at_an_end = size in ends or size == len(MAGIC)
        assert (reader.damage is None) == at_an_end, size
        if reader.damage is not None:
            assert reader.damage.is_torn
            assert "everything before it was read" in str(reader.damage)


def test_a_changed_byte_anywhere_is_damage_that_is_located(tmp_path: Path) -> None:
    path = tmp_path / "a.hgr"
    ends = write(path, blocks=3)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x41]) + whole[position + 1 :])
        events, reader = read(path)
        assert reader.damage is not None, position
        before = [end for end in (len(MAGIC), *ends) if end <= position]
        assert reader.damage.offset == (max(before) if before else 0)
        path.write_bytes(whole[: max((end for end in ends if end <= position), default=0)] or MAGIC)
        assert len(read(path)[0]) == len(events)


@pytest.mark.parametrize("cut", [0, 1, 5, 20])
def test_a_recorder_continues_after_the_last_whole_block(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.hgr"
    ends = write(path, blocks=3)
    path.write_bytes(path.read_bytes()[: ends[-1] - cut])
    writer = RecordingWriter(path, hashed=False)
    assert writer.size_bytes == (ends[-2] if cut else ends[-1])
    writer.add(some_records(writer.table, 9))
    writer.close()
    events, reader = read(path)
    assert reader.damage is None
    path.write_bytes(path.read_bytes()[: ends[-2] if cut else ends[-1]])
    assert len(events) > len(read(path)[0])


def test_a_file_with_damage_in_the_middle_is_not_continued_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.hgr"
    ends = write(path, blocks=3)
    content = bytearray(path.read_bytes())
    content[ends[0] + 12] ^= 1
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"cannot be continued: a block does not match its checksum at byte"):
        RecordingWriter(path, hashed=False)
    assert path.read_bytes() == content


def test_a_file_that_is_no_recording_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("important notes")
    with pytest.raises(RecordingError, match="not a recording"):
        RecordingWriter(path, hashed=False)
    assert path.read_text() == "important notes"
    assert not is_recording(path)


def test_two_recorders_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.hgr"
    first = RecordingWriter(path, hashed=False)
    with pytest.raises(RecordingError, match="another recorder"):
        RecordingWriter(path, hashed=False)
    first.close()
    RecordingWriter(path, hashed=False).close()
    assert is_recording(path)


def test_names_are_hashed_in_the_whole_file_or_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "a.hgr"
    write(path, blocks=1, hashed=True)
    with pytest.raises(RecordingError, match="begun with --hash-names"):
        RecordingWriter(path, hashed=False)
    RecordingWriter(path, hashed=True).close()


def test_the_key_of_hashed_names_is_made_once_and_needed_to_continue(tmp_path: Path) -> None:
    path = tmp_path / "a.hgr"
    key = name_key(path, is_new=True)
    assert name_key(path, is_new=False) == key
    assert (tmp_path / "a.hgr.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "a.hgr.key").unlink()
    with pytest.raises(RecordingError, match=r"a\.hgr\.key"):
        name_key(path, is_new=False)


def test_a_block_that_decompresses_to_too_much_is_damage() -> None:
    decoder = BlockDecoder()
    list(decoder.feed(MAGIC + encode_block(bytes(65 * 1024 * 1024))))
    assert decoder.damage is not None
    assert "too large" in decoder.damage.problem
