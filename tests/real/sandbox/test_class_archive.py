"""JVMs that start from an archive of classes, and those that have none."""

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger import jvm
from ledger.jvm import check_java
from ledger.mirror.spark import SPARK_CLASSES, spark_jars
from ledger.sandbox.brokers import kafka_jars

NAME = "tools"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A class path, and a home without archives."""
    found = kafka_jars()
    monkeypatch.setenv("MIRROR_LEDGER_HOME", str(tmp_path))
    return found


def mapped_classes(jars: list[Path]) -> int:
    """How many of Kafka's classes a JVM had from an archive."""
    class_path = ":".join(map(str, jars))
    options = [*jvm.options(NAME, jars), "-Xlog:class+load", "-cp", class_path]
    done = subprocess.run(
        [str(check_java()), *options, "kafka.tools.StorageTool", "random-uuid"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "[warning]" not in done.stdout + done.stderr
    return sum("kafka." in line and "shared objects file" in line for line in done.stdout.splitlines())


def test_a_jvm_starts_from_the_archive_that_fits_it_and_without_any_other(jars: list[Path]) -> None:
    assert jvm.options(NAME, jars) == ()
    assert mapped_classes(jars) == 0
    with jvm.written(NAME, jars):
        mapped_classes(jars)
    assert mapped_classes(jars) > 10
    archive = jvm.archive_file(NAME, jars)
    assert [file.name for file in archive.parent.iterdir()] == [archive.name]
    assert jvm.options(NAME, jars[1:]) == (), "of other jars"
    strange = jvm.archive_file(NAME, jars[1:])
    archive.rename(strange)
    assert mapped_classes(jars[1:]) == 0, "a JVM that is given what does not fit starts as without"


def test_the_jvm_of_a_driver_starts_from_the_archive_that_setting_up_has_made(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    archive = jvm.archive_file(SPARK_CLASSES, spark_jars())
    assert archive.name in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_an_archive_that_is_not_finished_is_none(jars: list[Path]) -> None:
    with suppress(KeyboardInterrupt), jvm.written(NAME, jars):
        [unfinished] = re.findall("ArchiveClassesAtExit=(.*)", " ".join(jvm.options(NAME, jars)[:1]))
        Path(unfinished).write_bytes(b"half of one")
        raise KeyboardInterrupt
    assert jvm.options(NAME, jars) == ()
    assert list(jvm.archive_file(NAME, jars).parent.iterdir()) == []
