"""The rules of each kind of request."""

from collections.abc import Mapping

from ledger.domain.operations.requests import RequestKind
from ledger.mirror.requests.accept_foreign import AcceptForeignRules
from ledger.mirror.requests.pause import PauseRules
from ledger.mirror.requests.resume import ResumeRules
from ledger.mirror.requests.resync import ResyncRules
from ledger.mirror.requests.rules import RequestRules
from ledger.mirror.requests.skip_to import SkipToRules

RULES: Mapping[RequestKind, RequestRules] = {
    RequestKind.PAUSE: PauseRules(),
    RequestKind.RESUME: ResumeRules(),
    RequestKind.SKIP_TO: SkipToRules(),
    RequestKind.ACCEPT_FOREIGN: AcceptForeignRules(),
    RequestKind.RESYNC: ResyncRules(),
}
