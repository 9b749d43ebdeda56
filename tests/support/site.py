"""What a test on the shared clusters works with: one fixture for clusters, session, folder and commands."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.mirror.progress import RunSummary
from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox, SandboxCluster
from tests.support.commands import Done, command
from tests.support.following import config_of
from tests.support.plans import planned
from tests.support.runs import FLOW, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RealSite:
    """`folder` is the test's own; what commands print is read from `capsys`."""

    pair: Mapping[str, SandboxCluster]
    sandbox: Sandbox
    spark: SparkSession
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def servers(self) -> tuple[str, str]:
        """Bootstrap servers of east and of west."""
        return self.pair["east"].bootstrap_servers, self.pair["west"].bootstrap_servers

    def configured(self, flows: Mapping[str, str], west: str = "") -> MirrorConfig:
        """The configuration of `config_of`, with an empty ledger."""
        config = config_of(self.folder, self.pair, flows, west)
        init_ledger(config)
        return config

    def running(self, config: MirrorConfig, flow: str = FLOW) -> AbstractContextManager[Future[RunSummary]]:
        """A driver beside the body, which also records both clusters."""
        return running(config, self.spark, flow, recorded=frozenset(Subject))

    def planned(
        self, config: MirrorConfig, kind: str, *options: str, way: tuple[str, str] = ("east", "west")
    ) -> str:
        """The id of a plan, once nothing stands against it."""
        return planned(self.capsys, config, kind, *options, way=way)

    def command(self, config: MirrorConfig, *words: str) -> Done:
        """How a command has ended, and what it printed."""
        return command(self.capsys, config, *words)

    def done(self, config: MirrorConfig, *words: str) -> Done:
        """The same of a command that has to end well."""
        done = self.command(config, *words)
        assert done.code == 0, done.err
        return done


@pytest.fixture
def site(
    broker_pair: Mapping[str, SandboxCluster],
    broker_pair_sandbox: Sandbox,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> RealSite:
    """The shared clusters, the session, and a folder for one test."""
    return RealSite(broker_pair, broker_pair_sandbox, spark, tmp_path, capsys)
