"""Producer ids as a cluster of several nodes gives them: each node from blocks of its own."""

import random
from collections.abc import Sequence

from ledger.facts.identity import DRAWN_IDS

BLOCK = 1000
"""Ids that a node takes from the controller at once (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`)."""


class ProducerIdBlocks:
    """Gives every id once. Clients ask any node: which, is drawn apart from all else that is random."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        self._drawing = random.Random(f"drawn at {seed}")
        self._left: dict[int, list[int]] = {}
        self._blocks = 0

    def give(self, nodes: Sequence[int]) -> int:
        """The next id of one of the nodes."""
        left = self._left.setdefault(self._rng.choice(nodes), [])
        if not left:
            left.extend(reversed(range(self._blocks * BLOCK, (self._blocks + 1) * BLOCK)))
            self._blocks += 1
        return left.pop()

    def draw(self) -> int:
        """One that no node gives."""
        return self._drawing.choice(DRAWN_IDS)
