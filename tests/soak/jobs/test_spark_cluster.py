"""A mirror on a standalone cluster of Spark, whose executors have Python alone; one of them dies at work."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from tests.support.drivers import (
    command_of,
    descendants,
    ended_afterwards,
    submit_command,
    submit_environment,
)
from tests.support.flows import FlowUnderTest, flow_under_test, produce, steady_load
from tests.support.installed import wheel
from tests.support.runs import FLOW
from tests.support.scraped import free_port
from tests.support.site import RealSite
from tests.support.waiting import eventually

__all__ = ["wheel"]

_WORKERS = 3
FIRST = 300
LOAD_PER_S = 2_000
MORE = 6_000
_BARE_PYTHON = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
"""Of the same version as the driver's, which Spark requires, and without any package."""


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A master and its workers, each a process with one core; `pids`: those of the workers."""

    master: str
    pids: tuple[int, ...]

    def executors(self) -> list[int]:
        """JVMs that run tasks, each below the worker that started it."""
        return [
            pid
            for worker in self.pids
            for pid in descendants(worker)
            if "CoarseGrainedExecutorBackend" in command_of(pid)
        ]

    def at_work(self) -> list[int]:
        """Executors that have started Python."""
        return [
            pid
            for pid in self.executors()
            if any(_BARE_PYTHON in command_of(below) for below in descendants(pid))
        ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    home = Path(pyspark.__file__).parent
    master = f"spark://127.0.0.1:{free_port()}"
    launch = [
        "/usr/bin/env",
        "-i",
        f"PATH={os.environ['PATH']}",
        "SPARK_LOCAL_IP=127.0.0.1",
        f"HOME={tmp_path}",
    ]
    launch += [f"SPARK_HOME={home}", str(home / "bin" / "spark-class")]
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    log = tmp_path / "cluster.log"
    with ExitStack() as stack:
        port = ["--port", master.rpartition(":")[2]]
        stack.enter_context(
            ended_afterwards([*launch, "org.apache.spark.deploy.master.Master", *place, *port], log)
        )
        workers = [
            stack.enter_context(
                ended_afterwards(
                    [
                        *[*launch, "org.apache.spark.deploy.worker.Worker", *place],
                        *[
                            "--cores",
                            "1",
                            "--memory",
                            "1g",
                            "--work-dir",
                            str(tmp_path / f"worker-{number}"),
                            master,
                        ],
                    ],
                    log,
                )
            )
            for number in range(_WORKERS)
        ]
        eventually(
            lambda: log.read_text(encoding="utf-8").count("Successfully registered with master") == _WORKERS,
            "all workers at the master",
            within_s=120,
        )
        yield SparkCluster(master, tuple(worker.pid for worker in workers))
    print(log.read_text(encoding="utf-8")[-4000:])


@pytest.fixture
def packages(tmp_path: Path, wheel: Path) -> Path:
    """An archive of all that executors import, but PySpark, which Spark brings."""
    lib, archive = tmp_path / "lib", tmp_path / "lib.tar.gz"
    for words in (
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(lib), str(wheel)],
        ["rm", "-r", str(lib / "pyspark")],
        ["tar", "-C", str(lib), "-czf", str(archive), "."],
    ):
        subprocess.run(words, check=True, timeout=900)
    return archive


@pytest.fixture
def flow(site: RealSite) -> Iterator[FlowUnderTest]:
    with flow_under_test(site.pair, site.folder, "spread", f"tasks = {_WORKERS}") as made:
        produce(made, FIRST)
        yield made


def test_partitions_are_spread_over_executors_and_one_that_is_killed_leaves_no_duplicate_and_no_hole(
    cluster: SparkCluster, packages: Path, flow: FlowUnderTest, tmp_path: Path
) -> None:
    """Its Python outlives it for a moment, beside the attempt that has taken its partitions over."""
    assert subprocess.run(
        [_BARE_PYTHON, "-I", "-c", "import ledger"], cwd=tmp_path, check=False, capture_output=True
    ).returncode
    driver = submitted(cluster, packages, flow, flow.log)
    try:
        flow.wait_for_records(0)
        with steady_load(flow, per_second=LOAD_PER_S, start=FIRST):
            flow.wait_for_records(MORE)
            eventually(lambda: len(cluster.at_work()) == _WORKERS, "each executor at work")
            os.kill(cluster.at_work()[0], signal.SIGKILL)
            flow.wait_for_records(2 * MORE)
        assert driver.poll() is None, flow.told()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    eventually(lambda: not cluster.executors(), "no executor without its driver", within_s=60)
    last = submitted(cluster, packages, flow, tmp_path / "last.log", "--until-caught-up", "--take-over")
    assert last.wait(300) == 0, (tmp_path / "last.log").read_text(encoding="utf-8")[-4000:]
    flow.assert_faithful(at_least=FIRST + 3 * MORE)
    summary = json.loads((tmp_path / "last.log").read_text(encoding="utf-8").strip().splitlines()[-1])
    assert (summary["flow"], summary["end"]) == (FLOW, "caught_up")


def submitted(
    cluster: SparkCluster, packages: Path, flow: FlowUnderTest, log: Path, *arguments: str
) -> "subprocess.Popen[bytes]":
    """The mirror as a job of the cluster, in a process group of its own."""
    command = submit_command(
        "mirror_topics", "--config", flow.config.file, "--flow", FLOW, *arguments, master=cluster.master
    )
    shipped = [
        *("--archives", f"{packages}#lib", "--conf", "spark.executorEnv.PYTHONPATH=lib"),
        *(
            "--conf",
            f"spark.pyspark.python={_BARE_PYTHON}",
            "--conf",
            f"spark.pyspark.driver.python={sys.executable}",
        ),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.cores.max=3"),
    ]
    environment = {name: value for name, value in submit_environment().items() if name != "PYSPARK_PYTHON"}
    with log.open("ab") as words:
        return subprocess.Popen(
            [command[0], *shipped, *command[1:]],
            stdout=words,
            stderr=words,
            env=environment,
            start_new_session=True,
        )
