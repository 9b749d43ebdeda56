"""A cluster's configuration as kafka-python and plain sockets take it: secrets are looked up here.

The values returned hold secrets in clear: pass them to a client, do not keep, print or pickle them.
"""

import ssl
from collections.abc import Mapping

from ledger.config.cluster import ClusterConfig
from ledger.config.secrets import SecretReference
from ledger.errors import Trouble, UsageError

CLIENT_ID = "mirror-ledger"

_KAFKA_PYTHON_NAMES = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
_MECHANISM_NAMES = ("sasl.mechanism", "sasl.mechanisms")
_TLS_NAMES = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
    }
)
_SECURITY_PREFIXES = ("sasl.", "ssl.", "enable.ssl.", "https.")


def resolved_properties(cluster: ClusterConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The configured properties with every secret in its place."""
    return {
        name: value.resolve(environ) if isinstance(value, SecretReference) else value
        for name, value in cluster.properties.items()
    }


def kafka_python_properties(cluster: ClusterConfig, environ: Mapping[str, str]) -> dict[str, object]:
    """Addresses and security for kafka-python; properties that only tune librdkafka are left out.

    A security property that kafka-python has no counterpart for is refused: leaving it out would
    connect in another way than configured.
    """
    properties = resolved_properties(cluster, environ)
    _refuse_unmapped(cluster.name, properties)
    protocol = properties.get("security.protocol", "plaintext").upper()
    settings: dict[str, object] = {
        "bootstrap_servers": [address.strip() for address in cluster.bootstrap_servers.split(",")],
        "client_id": CLIENT_ID,
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        settings |= _sasl_settings(properties)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = tls_context(f"cluster {cluster.name}", properties)
    return settings


def tls_context(peer: str, properties: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS settings of resolved librdkafka properties, as Python's own sockets take them.

    `peer` is the cluster or broker that an error names.
    """
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                properties.get("ssl.key.password"),
            )
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{peer}: TLS files cannot be used: {error}; not connected", trouble=Trouble.TLS_FILES
        ) from error
    _relax_verification(context, properties)
    return context


def _relax_verification(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE


def _sasl_settings(properties: Mapping[str, str]) -> dict[str, object]:
    mechanism = next((properties[name] for name in _MECHANISM_NAMES if name in properties), "GSSAPI")
    named = {ours: properties[theirs] for theirs, ours in _KAFKA_PYTHON_NAMES.items() if theirs in properties}
    return {"sasl_mechanism": mechanism, **named}


def _refuse_unmapped(cluster_name: str, properties: Mapping[str, str]) -> None:
    known = _TLS_NAMES.union(_KAFKA_PYTHON_NAMES, _MECHANISM_NAMES)
    unmapped = [name for name in properties if name.startswith(_SECURITY_PREFIXES) and name not in known]
    if unmapped:
        raise UsageError(
            f"cluster {cluster_name}: {', '.join(sorted(unmapped))} cannot be used for copying; "
            f"of the security properties these can: {', '.join(sorted(known))}; not connected"
        )
