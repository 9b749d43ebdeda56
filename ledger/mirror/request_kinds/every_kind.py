"""The rules of each kind of request."""

from collections.abc import Mapping

from ledger.domain.operations.requests import RequestKind
from ledger.mirror.request_kinds.accept_foreign import AcceptForeignRules
from ledger.mirror.request_kinds.pause import PauseRules
from ledger.mirror.request_kinds.resume import ResumeRules
from ledger.mirror.request_kinds.resync import ResyncRules
from ledger.mirror.request_kinds.rules import RequestRules
from ledger.mirror.request_kinds.skip_to import SkipToRules

RULES: Mapping[RequestKind, RequestRules] = {
    RequestKind.PAUSE: PauseRules(),
    RequestKind.RESUME: ResumeRules(),
    RequestKind.SKIP_TO: SkipToRules(),
    RequestKind.ACCEPT_FOREIGN: AcceptForeignRules(),
    RequestKind.RESYNC: ResyncRules(),
}
