"""Lives of two clusters whose direction changes again and again, from a seed."""

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from ledger.errors import PreconditionError
from ledger.facts.cut_offsets import Cut
from tests.simulation.crash_points import CrashPoint
from tests.simulation.faults import Fault
from tests.support.calm_pairs import BACK, FORWARD, CalmPair

_LOST = f"struck: {Fault.LOST_CONNECTIONS}"


def live_in_storms(seeds: Iterable[int]) -> None:
    """Each of these lives keeps every record at both sides once, and all invariants; something happens in them."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        print(f"seed {seed}")
        pair = CalmPair(frozenset(CrashPoint), chance=0.15, is_stormy=True, seed=seed)
        happened["records"] += len(live_with_changes(pair, random.Random(seed)))
        assert pair.broken_invariants() == {}
        happened += pair.tally
        happened["deaths"] += pair.plan.crashed.total()
    print(dict(happened))
    assert happened["records"] > 10
    assert min(happened[what] for what in ("deaths", "settled", _LOST)) > 0, "all of it happens"


def live_with_changes(pair: CalmPair, rng: random.Random) -> list[str]:
    """Five turns of a life with a change of direction behind each; what applications have written."""
    holder, other, flow, cut = "east", "west", FORWARD, None
    expected: list[str] = []
    for turn in range(5):
        for _ in range(rng.randint(0, 3)):
            expected.append(f"{holder[0]}{turn}-{len(expected)}")
            pair.write(holder, expected[-1])
            if rng.random() < 0.3:
                pair.mark(rng.choice((holder, other)))
            if rng.random() < 0.6:
                pair.run_to_death(flow, from_cut=cut)
                if pair.is_stormy and rng.random() < 0.4:
                    with suppress(PreconditionError):  # it never ran, or not in this direction
                        pair.tally["settled"] += pair.settle(flow).records
        _catch_up(pair, flow, cut)
        for alias in ("east", "west"):
            found = pair.values(alias)
            assert found == expected[len(expected) - len(found) :], (turn, alias)
            if rng.random() < 0.3:
                pair.log(alias).delete_before(rng.randint(0, pair.log(alias).high_watermark))
        cut = pair.promote() if holder == "east" else None
        if cut is None:
            pair.demote()
        holder, other, flow = other, holder, BACK if flow == FORWARD else FORWARD
    return expected


def _catch_up(pair: CalmPair, flow: str, cut: Cut | None) -> None:
    """What was settled is paired first: then a driver stops at what others wrote behind it, and the next continues."""
    for _ in range(2):
        assert pair.run(flow, from_cut=cut) is None
        if pair.stop(flow) is None:
            return
    assert pair.stop(flow) is None, pair.stop_message(flow)
