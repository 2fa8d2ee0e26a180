"""Client certificates: which user a certificate names, and how invalid ones are refused."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headgate.apiserver.io.certificate_files import ensure_certificates
from headgate.http.server_limits import ServerLimits
from wire.http_front import ADMIN, MAPS, Front

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    server = Front(tmp_path, ServerLimits(stop_s=1.0))
    yield server
    server.stop()


def client(
    front: Front,
    authority: Path,
    name: str,
    *organizations: str,
    days: int = 1,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> ssl.SSLContext:
    """A client's TLS with a certificate that ``authority`` (a folder with ca.crt and ca.key) has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    ca = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    now = datetime.datetime.now(datetime.UTC)
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject)
        .serial_number(x509.random_serial_number())
        .public_key(key.public_key())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    path = authority / f"{name}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(cafile=str(front.certificates.ca))
    context.load_cert_chain(path)
    return context


def test_the_subject_is_the_user_and_its_organizations_are_the_groups(front: Front) -> None:
    tls = client(front, front.certificates.ca.parent, "jane", "system:masters", "devs")
    status, _, body = front.ask("POST", WHO_AM_I, {}, token="", tls=tls)
    assert status == 201
    assert b'"username":"jane"' in body
    assert b'"system:masters","devs"' in body


def test_a_certificate_has_precedence_over_a_token(front: Front) -> None:
    tls = client(front, front.certificates.ca.parent, "jane", "system:masters")
    assert front.ask("GET", MAPS, token="wrong", tls=tls)[0] == 200


def test_a_certificate_without_rights_is_forbidden(front: Front) -> None:
    tls = client(front, front.certificates.ca.parent, "jane")
    assert front.ask("GET", MAPS, token="", tls=tls)[0] == 403


def test_one_that_is_out_of_date_is_answered_with_401_and_a_token_still_counts(front: Front) -> None:
    tls = client(front, front.certificates.ca.parent, "jane", "system:masters", days=-1)
    assert front.ask("GET", MAPS, token="", tls=tls)[0] == 401
    assert front.ask("GET", "/healthz", token="", tls=tls)[0] == 401
    assert front.ask("GET", MAPS, token=ADMIN, tls=tls)[0] == 200


def test_one_of_a_foreign_authority_does_not_get_in(front: Front, tmp_path: Path) -> None:
    foreign = ensure_certificates(tmp_path / "foreign", "127.0.0.1").ca.parent
    tls = client(front, foreign, "jane", "system:masters")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        front.ask("GET", MAPS, token=ADMIN, tls=tls)


def test_a_servers_certificate_makes_no_client(front: Front) -> None:
    authority = front.certificates.ca.parent
    tls = client(front, authority, "jane", "system:masters", usage=ExtendedKeyUsageOID.SERVER_AUTH)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        front.ask("GET", MAPS, token=ADMIN, tls=tls)


def test_a_renewed_certificate_is_served_without_a_restart_and_open_lines_stay(front: Front) -> None:
    with front.line() as before:
        front.certificates.server.unlink()
        ensure_certificates(front.certificates.ca.parent, "127.0.0.1")
        front.renew()
        with front.line() as after:
            assert after.getpeercert() != before.getpeercert()
        before.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode())
        assert before.recv(12) == b"HTTP/1.1 200"


def test_files_that_cannot_be_used_leave_the_old_certificate_in_place(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    front.certificates.server.write_text("nonsense")
    front.renew()
    assert front.ask("GET", MAPS)[0] == 200
    assert "the server keeps the previous ones" in caplog.text
