"""One of each kind of operation, with something in every key: the examples of `PROTOCOL.md`, read."""

import json

from ledger.facts import every_kind
from ledger.facts.operations import OperationContent, OperationKind
from tests.support.checkout import CHECKOUT
from tests.support.documents import json_examples, section

_PROTOCOL = (CHECKOUT / "ledger" / "PROTOCOL.md").read_text(encoding="utf-8")
(_EXAMPLES,) = json_examples(section(_PROTOCOL, "Operations"))


def content_of(kind: OperationKind) -> OperationContent:
    """The content of its example."""
    read = every_kind.content_of({"kind": kind.value, "content": json.dumps(_EXAMPLES[kind])})
    assert read is not None
    return read
