"""Requests that kafka-python does not know, as it reads those that it does: Kafka's own descriptions of messages."""

from typing import Any

from kafka.protocol.api_message import ApiMessage


def message(name: str) -> Any:
    """The class of a message of this folder, made as the library makes its own; responses it finds by their key."""
    return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=__name__)
