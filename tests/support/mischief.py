"""Somebody meddles between the end of one process that carries out a plan and the next one, which continues it.

The oracle is what lies in the logs and what consumers have processed: applications are not started where records are at
the former source alone, or a group would pass some.
"""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from ledger.changeover.plans import ChangeoverKind, StepName
from ledger.errors import MirrorLedgerError
from ledger.facts.groups import NewCommit
from tests.simulation.kafka.administered import MIRROR, topic_rule
from tests.support.changing_pairs import GROUPS, SWITCHOVER, ChangingPair, Consumer, value_of
from tests.support.operator_processes import ProcessEnded

_ENDS = (
    *(StepName.DRAIN, StepName.STOP_GROUPS, StepName.PROMOTE, StepName.SHUT_OUT, StepName.CUT),
    *(StepName.HAND_OVER, StepName.MOVE_GROUPS, StepName.AUDIT, StepName.START_APPLICATIONS),
)
"""Steps at whose beginning a process ends."""


def _write_at_east(pair: ChangingPair) -> None:
    pair.unfence_east()
    for partition in (0, 1):
        pair.produce("orders", partition)
    pair.schedule.wait(2.0)


def _partition_added(pair: ChangingPair) -> None:
    pair.east.add_partitions("users", total=2)
    pair.append_past_all_rules(pair.east, "users", 1)


def _somebody_may_write(pair: ChangingPair) -> None:
    pair.east.change_acls([topic_rule("User:other", "write", "orders")])
    pair.schedule.wait(1.0)


def _mirror_let_in(pair: ChangingPair) -> None:
    pair.west.change_acls(
        [one for one in pair.west.acls if one.entity == MIRROR and one.operation == "write"], remove=True
    )
    pair.west.change_acls([topic_rule(MIRROR, "write", "*")])
    pair.schedule.wait(1.0)


def _reads_on_at_east(pair: ChangingPair) -> None:
    consumer = Consumer(pair.east, "audit", pair.processed["audit"])
    consumer.join()
    consumer.poll(1)
    pair.east.leave("audit")


def _reads_on_recorded(pair: ChangingPair) -> None:
    _reads_on_at_east(pair)
    pair.recorders.record_all()


def _set_to_the_end(pair: ChangingPair) -> None:
    end = pair.west.log("orders", 0).high_watermark
    pair.west.set_commits("audit", [NewCommit("orders", 0, end, None)])


def _retention_at_west(pair: ChangingPair) -> None:
    pair.west.log("orders", 0).delete_before(3)


def _away(pair: ChangingPair) -> None:
    pair.east.available = False


MISCHIEF: Mapping[str, Callable[[ChangingPair], None]] = {
    "nothing": lambda _pair: None,
    "written at east": _write_at_east,
    "unfenced": ChangingPair.unfence_east,
    "written past all rules": ChangingPair.write_at_east_past_all_rules,
    "partition added": _partition_added,
    "somebody may write": _somebody_may_write,
    "mirror let in": _mirror_let_in,
    "demoted": ChangingPair.demote,
    "read on at east": _reads_on_at_east,
    "read on, and recorded": _reads_on_recorded,
    "member at east": lambda pair: Consumer(pair.east, "billing", pair.processed["billing"]).join(),
    "set to the end at west": _set_to_the_end,
    "commits deleted at west": lambda pair: pair.west.committed.clear(),
    "retention at west": _retention_at_west,
    "created again at west": lambda pair: pair.west.recreate_topic("users"),
    "east away": _away,
}


def meddle(seed: str) -> str:
    """Play one history; returns what came of it, in words. Raises `AssertionError` where something is lost by it."""
    rng = random.Random(seed)
    step, mischief = rng.choice(_ENDS), rng.choice(sorted(MISCHIEF))
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    with suppress(ProcessEnded):
        pair.apply(
            plan,
            pair.outside.process(before=lambda write: write == f"ledger: apply operations step_begun {step}"),
        )
    at_west = pair.values(pair.west)
    MISCHIEF[mischief](pair)
    commits = dict(pair.west.committed)
    refused = ""
    try:
        pair.apply(plan)
    except MirrorLedgerError as error:
        refused = str(error)
    applied = pair.applied(plan)
    assert applied is not None
    what = f"{mischief} before {step}: {refused or 'done'}"
    if StepName.START_APPLICATIONS in applied.done:
        harm = _harm(pair, at_west)
        assert not harm, f"{'; '.join(harm)}, and applications were started: {what}"
    else:
        assert refused, what
        if StepName.MOVE_GROUPS not in applied.begun:
            assert pair.west.committed == commits, f"groups were set: {what}"
    pair.east.available = True
    pair.end()
    return what


Values = Mapping[tuple[str, int], list[str]]


def _harm(pair: ChangingPair, before: Values) -> list[str]:
    """What lies at east and was never at west, and what of west's log a group has never processed."""
    at_west = pair.values(pair.west)
    ever = {(*at, value) for values in (before, at_west) for at, found in values.items() for value in found}
    at_east = {
        (name, partition, value_of(record))
        for name, topic in pair.east.topic_by_name.items()
        for partition, log in enumerate(topic.logs)
        for record in log.readable()
    }
    alone = sorted(at_east - ever)
    found = [f"{len(alone)} at east alone"] if alone else []
    for group in GROUPS:
        skipped = {(*at, value) for at, values in at_west.items() for value in values} - {
            *pair.processed[group]
        }
        found += [f"{group} has skipped {len(skipped)}"] if skipped else []
    return found
