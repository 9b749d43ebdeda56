"""Until when certificates are valid: the broker's, read in a handshake of its own, and the mirror's own file.

Python's `ssl` tells the dates of a certificate only after it has verified it, and an expired one is refused
before. So the validity is read from the DER bytes. Source: RFC 5280, section 4.1.
"""

import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ledger.adapters.kafka.connection.broker_connection import Address
from ledger.adapters.kafka.connection.client_properties import tls_context
from ledger.doctor.measurements import Validity
from ledger.errors import ClusterUnavailableError, ProtocolError, Trouble, UsageError

_EXPLICIT_VERSION = 0xA0
_UTC_TIME = 0x17
_LONG_FORM = 0x80
_CENTURY_TURN = 50


def broker_validity(address: Address, properties: Mapping[str, str], *, timeout_s: float) -> Validity:
    """The validity of the certificate that a broker shows. Nothing but the handshake is sent."""
    context = tls_context(str(address), properties)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address.host, address.port), timeout=timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except OSError as error:
        raise ClusterUnavailableError(f"{address} showed no certificate: {error}") from error
    if shown is None:
        raise ProtocolError(f"{address} showed no certificate")
    return validity(shown)


def file_validity(path: Path) -> Validity:
    """The validity of the first certificate of a PEM file."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise UsageError(
            f"certificate {path} cannot be read: {error.strerror}", trouble=Trouble.TLS_FILES
        ) from error
    begin, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    if begin < 0 or end < begin:
        raise UsageError(f"{path} holds no PEM certificate", trouble=Trouble.TLS_FILES)
    return validity(ssl.PEM_cert_to_DER_cert(text[begin : end + len(ssl.PEM_FOOTER)]))


def validity(certificate: bytes) -> Validity:
    """The two dates of a DER certificate. Raises `ProtocolError` for what is none."""
    try:
        signed = _elements(certificate)[0][1]
        subject = _elements(signed)[0][1]
        fields = [content for tag, content in _elements(subject) if tag != _EXPLICIT_VERSION]
        _serial, _algorithm, _issuer, dates = fields[:4]
        not_before, not_after = _elements(dates)
        return Validity(_time_ms(*not_before), _time_ms(*not_after))
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"a certificate cannot be read: {error}") from error


def _elements(run: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of every element of a run of DER elements."""
    found, position = [], 0
    while position < len(run):
        tag, content, position = _element(run, position)
        found.append((tag, content))
    return found


def _element(der: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag, content and end of the element at a position."""
    tag, length, start = der[position], der[position + 1], position + 2
    if length & _LONG_FORM:
        size = length & ~_LONG_FORM
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    if start + length > len(der):
        raise ValueError("it ends too early")
    return tag, der[start : start + length], start + length


def _time_ms(tag: int, content: bytes) -> int:
    """UTCTime has two digits of the year (RFC 5280: below 50 is 20xx), GeneralizedTime four."""
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _CENTURY_TURN else "19") + text
    moment = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
