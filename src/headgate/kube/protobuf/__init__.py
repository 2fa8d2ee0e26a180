"""Protobuf request bodies: bytes in, the plain value that the same object would have had as JSON out.

:func:`open_envelope` reads what surrounds every body and says of which kind it is, :class:`Messages` reads the object
itself by the generated field numbers. What comes out goes through ``codec.convert`` like any JSON value, so there is
one normal form. Only requests are read: answers are JSON.

Inside: ``wire`` are the bytes, ``scalars`` the types that have a small message of their own, ``slots`` reads a message
field by field, ``messages`` knows which fields there are.
"""

from headgate.kube.protobuf.envelope import Envelope, open_envelope
from headgate.kube.protobuf.messages import FieldNumber, Messages

__all__ = ["Envelope", "FieldNumber", "Messages", "open_envelope"]
