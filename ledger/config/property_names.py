"""Names of client properties, as librdkafka spells them, that mean something to the configuration."""

SECRET_PROPERTIES = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)
"""Client properties that are never written down in a configuration file."""

OWN_PROPERTIES = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "client.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "request.required.acks",
        "transactional.id",
    }
)
"""Client properties that decide what is promised; the mirror sets them itself."""

ADDRESS_PROPERTIES = frozenset({"bootstrap.servers", "metadata.broker.list"})
