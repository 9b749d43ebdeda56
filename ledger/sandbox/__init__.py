"""Real Kafka brokers on loopback, for tests and for the demo. Not for production data."""

from ledger.sandbox.clusters import Sandbox
from ledger.sandbox.properties import PLAINTEXT, FarPorts, ListenerSecurity
from ledger.sandbox.state import BrokerState, SandboxBroker, SandboxCluster

__all__ = [
    "PLAINTEXT",
    "BrokerState",
    "FarPorts",
    "ListenerSecurity",
    "Sandbox",
    "SandboxBroker",
    "SandboxCluster",
]
