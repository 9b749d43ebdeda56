"""`KafkaAdmin` keeps the contract of cluster administration on a real broker."""

from tests.support.contracts.cluster_admin import ClusterAdminContract


class TestKafkaAdmin(ClusterAdminContract):
    """With the fixture `site` of `conftest.py`."""
