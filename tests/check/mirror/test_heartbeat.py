"""Signs of life: only when nothing else was appended, under rounds that never collide."""

from collections.abc import Iterator

import pytest

from ledger.config.values import FlowConfig
from ledger.facts.tables import OFFSET_SYNCS
from ledger.mirror.progress import Heartbeat
from ledger.roles import heartbeat_ms
from ledger.store.session import FLOW_TABLES, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

WRITER = "flow:f"
FLOW = FlowConfig(name="f", source="a", target="b", topics=("t",), heartbeat_seconds=10)


def row_of(table: str) -> dict[str, object]:
    return dict(list(row(table).items())[4:])


class Beating:
    """A claimed flow on a memory ledger, with its clock."""

    def __init__(self) -> None:
        self.clock, self.ledger = FakeClock(), MemoryLedger()
        log = MemoryFactLog(self.ledger, self.clock)
        claim_row = {**row_of("writers"), "event": "claimed"}
        self.session = WriterSession.claimed(log, WRITER, FLOW_TABLES, claim_row)
        self.heartbeat = Heartbeat(FLOW, self.session, self.clock)

    def after(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.heartbeat.beat()
        self.session.wait()

    def append(self) -> None:
        self.session.append_in_background(OFFSET_SYNCS.name, [row_of(OFFSET_SYNCS.name)])

    def events(self) -> list[tuple[str, int]]:
        rows = self.ledger.at(self.ledger.latest()).relation("writers").to_pylist()
        return [(row["event"], row["round"]) for row in rows]


@pytest.fixture
def beating() -> Iterator[Beating]:
    made = Beating()
    with made.session:
        yield made


def test_a_sign_of_life_every_heartbeat_and_no_more(beating: Beating) -> None:
    for _ in range(5):
        beating.after(9)
    assert beating.events() == [("claimed", 0), ("alive", 1), ("alive", 2)]


def test_an_append_is_a_sign_of_life(beating: Beating) -> None:
    for _ in range(3):
        beating.after(6)
        beating.append()
    beating.after(9.9)
    assert beating.events() == [("claimed", 0)]
    beating.after(10)
    assert beating.events() == [("claimed", 0), ("alive", 4)]


def test_rounds_are_shared_with_what_is_copied(beating: Beating) -> None:
    beating.after(10)
    beating.append()
    assert beating.session.last_round == 2


def test_rounds_longer_than_a_heartbeat_are_allowed_for() -> None:
    assert heartbeat_ms(FLOW) == 10_000
    assert heartbeat_ms(FLOW.model_copy(update={"round_seconds": 25.0})) == 25_000
