"""Signatures by keys as PEM: RSA, EC or Ed25519, as openssl makes and verifies them."""

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from ledger.errors import UsageError


class Signer:
    """A private key; `kind` tells how openssl verifies by it, `public` is its public half as PEM.

    `name`: whose key it is, for messages. Raises `UsageError` where the text is no such key.
    """

    def __init__(self, pem: str, name: str) -> None:
        try:
            key = serialization.load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise UsageError(
                f"{name} is no private key as PEM without a password; nothing was written"
            ) from error
        if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey)):
            raise UsageError(f"{name} is neither RSA, EC nor Ed25519; nothing was written")
        self._key = key
        form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        self.public = key.public_key().public_bytes(*form)
        self.kind = "ed25519" if isinstance(key, ed25519.Ed25519PrivateKey) else "sha256"

    def sign(self, data: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            return self._key.sign(data, ec.ECDSA(hashes.SHA256()))
        return self._key.sign(data)


_PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


def _public_key(pem: str) -> _PublicKey:
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError("it is no public key as PEM") from None
    if not isinstance(key, _PublicKey):
        raise UsageError("the key is neither RSA, EC nor Ed25519")
    return key


def fingerprint(pem: str) -> str:
    """The SHA-256 of a public key as DER, by which equal keys are known; raises `UsageError` where it is none."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(_public_key(pem).public_bytes(*form)).hexdigest()


def is_signed(data: bytes, signature: bytes, pem: str) -> bool:
    """Whether the private half of this public key has signed exactly these bytes."""
    key = _public_key(pem)
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
