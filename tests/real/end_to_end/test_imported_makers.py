"""A configuration of MirrorMaker 2 that was imported mirrors the same topics and groups as a real MirrorMaker."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.maker_runs import assert_mirrored_alike, maker_site


def test_both_mirror_the_same(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with maker_site("active_passive.properties", tmp_path, spark, capsys) as site:
        assert_mirrored_alike(site)
