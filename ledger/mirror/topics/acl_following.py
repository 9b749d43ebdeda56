"""Access control lists of target topics follow those of the source, where the flow says so."""

from collections.abc import Collection

from ledger.domain.operations.directions import Promotion, nothing_promoted
from ledger.domain.topics.naming import TopicNaming
from ledger.domain.topics.topic_acls import AclFollow, acl_change, wanted_acls
from ledger.errors import PreconditionError
from ledger.mirror.findings.finding_log import Finding, FindingName
from ledger.mirror.topics.following_record import FollowingRecord
from ledger.ports.clusters import AclAdmin


class AclFollowing:
    """Creates what is wanted at the target, and removes what this flow had created and nobody wants now."""

    def __init__(
        self,
        follow: AclFollow,
        naming: TopicNaming,
        source: AclAdmin,
        target: AclAdmin,
        record: FollowingRecord,
    ) -> None:
        self._follow = follow
        self._naming = naming
        self._source = source
        self._target = target
        self._record = record

    def refresh(self, topics: Collection[str], promotion: Promotion = nothing_promoted) -> list[Finding]:
        """Follow for the selected source topics; what is refused is a finding of the flow.

        Rules of promoted topics are left as they are.
        """
        if self._follow is AclFollow.NONE:
            return []
        try:
            at_source, at_target = self._source.topic_acls(), self._target.topic_acls()
        except PreconditionError as error:
            return [Finding(name=FindingName.ACLS_NOT_READ, message=str(error))]
        change = acl_change(
            wanted_acls(at_source, naming=self._naming, topics=topics),
            at_target,
            created_by_mirror=self._record.created_acls(),
        ).without(lambda acl: promotion(acl.name) is not None)
        try:
            if change.to_create:
                self._target.create_acls(change.to_create)
                self._record.acls_created(change.to_create)
            if change.to_remove:
                self._target.delete_acls(change.to_remove)
                self._record.acls_removed(change.to_remove)
        except PreconditionError as error:
            return [Finding(name=FindingName.ACLS_NOT_CHANGED, message=str(error))]
        return []
