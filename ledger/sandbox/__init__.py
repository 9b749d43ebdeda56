"""Real Kafka brokers on loopback, for tests and for the demo. Not for production data."""

from ledger.sandbox.clusters import Sandbox
from ledger.sandbox.properties import PLAINTEXT, ListenerSecurity
from ledger.sandbox.state import BrokerState, SandboxBroker, SandboxCluster

__all__ = ["PLAINTEXT", "BrokerState", "ListenerSecurity", "Sandbox", "SandboxBroker", "SandboxCluster"]
