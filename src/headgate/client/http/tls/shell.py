"""The TLS settings of a client: whom it trusts, and which certificate it shows."""

from __future__ import annotations

import ssl
import tempfile

from headgate.client.credentials.shell import Identity
from headgate.client.kubeconfig import Access


def client_context(access: Access, identity: Identity) -> ssl.SSLContext:
    """Raises ``OSError`` (``ssl.SSLError``) or ``ValueError`` for certificates that are none."""
    authority = identity.authority
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # clusters' own certificates lack extensions that it asks for
    context.set_alpn_protocols(["http/1.1"])
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        with tempfile.NamedTemporaryFile() as pair:  # OpenSSL takes a file; this one is 0600 and gone soon
            pair.write(identity.certificate + b"\n" + identity.key)
            pair.flush()
            context.load_cert_chain(pair.name, password=b"")  # for a locked key: fail, do not ask the terminal
    return context
