"""One of each kind of operation, with something in every key: the examples of `ledger/facts/story.json`, read."""

import json

from ledger.facts import every_kind
from ledger.facts.operations import OperationContent, OperationKind
from tests.support.checkout import CHECKOUT

STORY = json.loads((CHECKOUT / "ledger" / "facts" / "story.json").read_text(encoding="utf-8"))
CONTENTS = STORY["contents"]


def content_of(kind: OperationKind) -> OperationContent:
    """The content of its example."""
    read = every_kind.content_of({"kind": kind.value, "content": json.dumps(CONTENTS[kind])})
    assert read is not None
    return read
