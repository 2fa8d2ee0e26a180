"""The certificates in the data folder: created, kept, renewed in time, and readable by their owner only."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import stat
from pathlib import Path

import pytest
from cryptography import x509

from headgate.apiserver.io.certificate_files import FileProblem, ensure_certificates, keep_valid, renew_if_due
from headgate.apiserver.io.signing_key_file import ensure_signing_key

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOST = "127.0.0.1"


def days(count: int) -> datetime.timedelta:
    return datetime.timedelta(days=count)


def serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def test_certificates_are_kept_while_they_are_good(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    made = serial(files.server), serial(files.ca)
    ensure_certificates(tmp_path, HOST, NOW + days(300))
    assert (serial(files.server), serial(files.ca)) == made


def test_the_server_certificate_is_renewed_a_month_before_it_ends(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    made = serial(files.server), serial(files.ca)
    assert not renew_if_due(tmp_path, HOST, NOW + days(334))
    assert renew_if_due(tmp_path, HOST, NOW + days(336))
    assert serial(files.server) != made[0]
    assert serial(files.ca) == made[1]


def test_another_host_needs_another_certificate(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    made = serial(files.server)
    ensure_certificates(tmp_path, "headgate.example", NOW)
    assert serial(files.server) != made


def end(path: Path) -> datetime.datetime:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc


def test_an_authority_is_kept_in_its_last_year_and_ends_no_earlier_than_its_certificates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    old = serial(files.ca)
    assert not caplog.records
    for left in (364, 20, 1):
        ensure_certificates(tmp_path, HOST, NOW + days(3650 - left))
        assert serial(files.ca) == old
        assert end(files.server) <= end(files.ca)
        assert not renew_if_due(tmp_path, HOST, NOW + days(3650 - left))
        assert f"{files.ca} expires in {left} days" in caplog.text


def test_an_authority_that_has_ended_is_refused_and_kept(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    old = serial(files.ca)
    text = r"ca\.crt expired at 2035-12-30 00:00 UTC according to this machine's clock; kubeconfigs"
    with pytest.raises(FileProblem, match=text):
        ensure_certificates(tmp_path, HOST, NOW + days(3650))
    assert serial(files.ca) == old


@pytest.mark.parametrize("name", ["server.crt", "server.key"])
def test_a_server_pair_that_does_not_match_is_replaced_with_a_warning(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = ensure_certificates(tmp_path / "a", HOST, NOW)
    ensure_certificates(tmp_path / "b", HOST, NOW)
    (tmp_path / "b" / name).replace(tmp_path / "a" / name)
    ensure_certificates(tmp_path / "a", HOST, NOW)
    ca = x509.load_pem_x509_certificate(files.ca.read_bytes())
    x509.load_pem_x509_certificate(files.server.read_bytes()).verify_directly_issued_by(ca)
    assert not renew_if_due(tmp_path / "a", HOST, NOW)
    assert "are not a certificate and its key; a new server certificate was created" in caplog.text


def test_a_server_pair_of_another_authority_is_replaced_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ensure_certificates(tmp_path / "a", HOST, NOW)
    ensure_certificates(tmp_path / "b", HOST, NOW)
    for name in ("server.crt", "server.key"):
        (tmp_path / "b" / name).replace(tmp_path / "a" / name)
    assert renew_if_due(tmp_path / "a", HOST, NOW)
    assert "server.crt is not signed by" in caplog.text


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
def test_an_authority_that_does_not_match_its_key_is_refused_and_kept(tmp_path: Path, name: str) -> None:
    ensure_certificates(tmp_path / "a", HOST, NOW)
    ensure_certificates(tmp_path / "b", HOST, NOW)
    (tmp_path / "b" / name).replace(tmp_path / "a" / name)
    before = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}
    with pytest.raises(FileProblem, match=r"ca\.key is not the key of the certificate beside it"):
        ensure_certificates(tmp_path / "a", HOST, NOW)
    assert {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()} == before


def test_a_certificate_of_a_server_is_no_authority(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    files.server.replace(files.ca)
    files.server_key.replace(tmp_path / "ca.key")
    with pytest.raises(FileProblem, match=r"ca\.crt is not a CA certificate"):
        ensure_certificates(tmp_path, HOST, NOW)


def test_a_certificate_that_is_due_and_cannot_be_written_is_served_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ensure_certificates(tmp_path, HOST, NOW)
    old = serial(files.server)
    (tmp_path / "server.crt.new").mkdir()  # so that writing fails, after the new key was written
    assert not renew_if_due(tmp_path, HOST, NOW + days(340))
    assert serial(files.server) == old
    assert "expires soon and cannot be renewed" in caplog.text
    ensure_certificates(tmp_path, HOST, NOW + days(340))  # the pair still matches
    with pytest.raises(FileProblem, match=r"server\.crt cannot be written"):
        renew_if_due(tmp_path, HOST, NOW + days(366))


def test_keys_are_for_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "pki"
        for _ in range(2):
            ensure_certificates(folder, HOST, NOW)
            ensure_signing_key(folder)
            for name in ("ca.key", "server.key", "sa.key"):
                assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
                (folder / name).chmod(0o644)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            folder.chmod(0o755)
    finally:
        os.umask(before)


def test_the_server_is_notified_of_a_renewed_certificate(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOST, datetime.datetime.now(datetime.UTC) - days(340))
    old = serial(files.server)
    told = asyncio.Event()

    async def wait() -> None:
        keeping = asyncio.create_task(keep_valid(tmp_path, HOST, told.set, every_s=0.001))
        async with asyncio.timeout(10):
            await told.wait()
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(wait())
    assert serial(files.server) != old


def test_a_signing_key_is_kept(tmp_path: Path) -> None:
    assert ensure_signing_key(tmp_path).key_id == ensure_signing_key(tmp_path).key_id


def test_a_file_without_a_valid_key_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sa.key").write_text("nonsense")
    with pytest.raises(FileProblem, match=r"sa\.key holds no private key"):
        ensure_signing_key(tmp_path)
