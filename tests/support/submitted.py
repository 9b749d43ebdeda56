"""The jobs under spark-submit."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from ledger.jvm import delta_jars
from ledger.sandbox.brokers import QUICK_JVM
from tests.support.checkout import CHECKOUT
from tests.support.drivers import ENDS_WITHIN_S, environment


def submit_command(job: str, *arguments: str, master: str) -> list[str]:
    """spark-submit of a job of the repository."""
    return [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", master, "--jars", ",".join(str(jar) for jar in delta_jars())),
        *("--driver-java-options", " ".join(QUICK_JVM)),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        str(CHECKOUT / "jobs" / f"{job}.py"),
        *arguments,
    ]


def submit_environment() -> dict[str, str]:
    return {**environment(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def submit(job: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A job on one machine, to its end."""
    return subprocess.run(
        submit_command(job, *arguments, master="local[2]"),
        capture_output=True,
        text=True,
        env=submit_environment(),
        timeout=ENDS_WITHIN_S,
        check=False,
    )


def loaded(job: str) -> ModuleType:
    """The script of a job, to be carried out in this process: it takes the session that there is."""
    spec = importlib.util.spec_from_file_location(job, CHECKOUT / "jobs" / f"{job}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
