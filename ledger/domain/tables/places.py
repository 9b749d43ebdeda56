"""Places: one number that orders a writer's appends to a table, from its epoch and its round.

It is the version of the writer's app transaction in the Delta log, too (`ledger/PROTOCOL.md`, "Writer requirements").
"""

ROUNDS_PER_EPOCH = 1 << 32


def place_of(epoch: int, number: int) -> int:
    """The place of an epoch's round."""
    return epoch * ROUNDS_PER_EPOCH + number


def epoch_of(place: int) -> int:
    return epoch_and_round(place)[0]


def epoch_and_round(place: int) -> tuple[int, int]:
    """What a place was made of."""
    return divmod(place, ROUNDS_PER_EPOCH)
