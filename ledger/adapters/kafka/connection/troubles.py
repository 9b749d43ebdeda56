"""What kept a socket from being used: the operating system's and OpenSSL's errors as a `Trouble`.

The same error means different things while a connection is made, in the TLS handshake, and later.
Source of the numbers: `X509_V_ERR_*` of OpenSSL's x509_vfy.h.
"""

import socket
import ssl

from ledger.errors import Trouble

_NOT_YET_VALID, _HAS_EXPIRED = 9, 10
_HOST_NAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_BY_VERIFICATION = {
    _NOT_YET_VALID: Trouble.EXPIRED,
    _HAS_EXPIRED: Trouble.EXPIRED,
    _HOST_NAME_MISMATCH: Trouble.HOST_NAME,
    _ADDRESS_MISMATCH: Trouble.HOST_NAME,
}
_OTHER_PROTOCOL = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})


def trouble_of_connecting(error: OSError) -> Trouble:
    """Why no connection was made."""
    if isinstance(error, socket.gaierror):
        return Trouble.NAME
    return Trouble.REFUSED if isinstance(error, ConnectionRefusedError) else Trouble.UNREACHABLE


def trouble_of_handshake(error: OSError) -> Trouble:
    """Why TLS was not spoken over a connection. A Kafka port without TLS closes it at the first message."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_VERIFICATION.get(error.verify_code, Trouble.AUTHORITY)
    if isinstance(error, TimeoutError):
        return Trouble.NO_ANSWER
    if isinstance(error, ConnectionError) or getattr(error, "reason", None) in _OTHER_PROTOCOL:
        return Trouble.NO_TLS
    return Trouble.TLS


def trouble_of(error: OSError | EOFError) -> Trouble:
    """Why a request over a connection has no answer."""
    return Trouble.NO_ANSWER if isinstance(error, TimeoutError) else Trouble.CLOSED
