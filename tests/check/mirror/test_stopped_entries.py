"""What stopped alike is told once, with one command that lets exactly that go on."""

from ledger.mirror.stops import StoppedPartition, stopped_entries

RESUME = "mirror-ledger resume f --topic"


def stopped(topic: str, partition: int, cause: str, message: str = "seen") -> StoppedPartition:
    return StoppedPartition(topic, partition, cause, message, "next step")


def test_partitions_of_one_topic_and_cause_are_one_entry_with_one_command() -> None:
    [entry] = stopped_entries("f", [stopped("t", number, "lost") for number in (3, 0, 1, 2, 7)])
    assert (entry.where, entry.cause, entry.next) == ("t partitions 0-3, 7", "lost", "next step")
    assert (entry.partitions, entry.commands) == ((0, 1, 2, 3, 7), (f"{RESUME} t",))
    assert entry.seen == "seen"


def test_one_partition_keeps_its_own_command() -> None:
    [entry] = stopped_entries("f", [stopped("t", 3, "lost")])
    assert (entry.where, entry.commands) == ("t partition 3", (f"{RESUME} t --partition 3",))


def test_where_causes_differ_no_command_is_for_the_whole_topic() -> None:
    """It would let the others go on as well, whatever stopped them."""
    denied, lost = stopped_entries(
        "f", [stopped("t", 0, "denied"), stopped("t", 1, "lost"), stopped("t", 2, "denied")]
    )
    assert (denied.where, lost.where) == ("t partitions 0, 2", "t partition 1")
    assert denied.commands == (f"{RESUME} t --partition 0", f"{RESUME} t --partition 2")
    assert lost.commands == (f"{RESUME} t --partition 1",)


def test_topics_have_entries_of_their_own() -> None:
    found = stopped_entries("f", [stopped(topic, number, "lost") for topic in "ba" for number in (0, 1)])
    assert [entry.commands for entry in found] == [(f"{RESUME} a",), (f"{RESUME} b",)]


def test_other_values_are_counted() -> None:
    messages = ["at 5", "at 5", "at 9", "at 7"]
    [entry] = stopped_entries("f", [stopped("t", n, "lost", told) for n, told in enumerate(messages)])
    assert entry.seen == "at partition 0: at 5 (at 2 others: the same with other values)"


def test_what_no_request_lets_go_on_has_no_command() -> None:
    found = stopped_entries("f", [stopped("t", 0, "shut_out"), stopped("t", 1, "a later cause")])
    assert [entry.commands for entry in found] == [(), ()]
