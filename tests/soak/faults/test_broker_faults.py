"""A broker that hangs when the copy is connected to it already."""

import pytest

from tests.support.trio import Trio, assert_others_go_on_while_one_hangs


@pytest.mark.fault(8)
def test_partitions_of_other_brokers_go_on_while_one_hangs(trio: Trio) -> None:
    assert_others_go_on_while_one_hangs(trio, is_connected=True)
