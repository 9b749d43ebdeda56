"""Until when certificates are valid: the broker's, read in a handshake of its own, and the mirror's own file.

Python's `ssl` tells the dates of a certificate only after it has verified it, and an expired one is refused
before. So `cryptography` reads what was shown in a handshake that verifies nothing.
"""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509

from ledger.adapters.kafka.connection.broker_connection import Address
from ledger.adapters.kafka.connection.client_properties import tls_context
from ledger.doctor.measurements import Validity
from ledger.errors import ClusterUnavailableError, ProtocolError, Trouble, UsageError


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
        return _dates(x509.load_pem_x509_certificate(path.read_bytes()))
    except OSError as error:
        raise UsageError(
            f"certificate {path} cannot be read: {error.strerror}", trouble=Trouble.TLS_FILES
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} holds no PEM certificate: {error}", trouble=Trouble.TLS_FILES) from error


def validity(certificate: bytes) -> Validity:
    """The two dates of a DER certificate. Raises `ProtocolError` for what is none."""
    try:
        return _dates(x509.load_der_x509_certificate(certificate))
    except ValueError as error:
        raise ProtocolError(f"a certificate cannot be read: {error}") from error


def _dates(certificate: x509.Certificate) -> Validity:
    dates = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    return Validity(*(int(date.timestamp() * 1000) for date in dates))
