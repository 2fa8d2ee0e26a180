"""Decodes protobuf request bodies to the same values as JSON bodies.

:func:`open_envelope` reads the envelope of a body and its kind, :class:`MessageDecoder` reads the object by the
generated field numbers. The result goes through ``apimachinery/codec/codec.py`` like any JSON value, so both formats
give equal objects. Only requests are read; responses are JSON.

``wire.py`` reads the bytes, ``scalars.py`` the types that have a message of their own (times, quantities),
``field_setters.py`` a message field by field; ``messages.py`` has the fields of each message.
"""

from headgate.apimachinery.protobuf.envelope import Envelope, open_envelope
from headgate.apimachinery.protobuf.messages import FieldNumber, MessageDecoder

__all__ = ["Envelope", "FieldNumber", "MessageDecoder", "open_envelope"]
