"""`KafkaAdmin` keeps the contract of cluster administration on a real broker."""

from tests.support.contracts.cluster_admin import ClusterAdminContract
from tests.support.contracts.share_offsets import ShareOffsetsContract


class TestKafkaAdmin(ClusterAdminContract):
    """With the fixture `site` of `conftest.py`."""


class TestShareGroups(ShareOffsetsContract):
    """The same of share groups."""
