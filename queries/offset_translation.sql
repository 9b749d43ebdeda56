-- name:    offset_translation
-- answers: where does each committed group offset land on the target, and how sure are we?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   judged_commits
-- params:  flow string
-- columns: flow string, group_id string, source_topic string, source_partition int,
--          committed_offset bigint, target_topic string, target_topic_id string, target_partition int,
--          target_offset bigint, status string, absence string, absent_since_ms bigint, metadata string
-- status:  no_map, other_incarnation, other_target_incarnation, mirrored, before_first, lost, expired_on_target,
--          ahead, gone, hidden, truncated, exact, at_end
--
-- The rule, as tests hold it against translate_commit of tests/support/algebra: the commit's own record, else the first
-- record after the last copied one below it, else the end of the map; never below the target's log start, and never
-- behind an earlier copy of what a resync has yet to copy again. So following it may repeat records and never skips
-- one. A map is what holds after supersession in the target incarnation that the flow went to last. A commit on
-- records that the source took back counts as made where these began. One that is not there any more counts with its
-- last offset; absent_since_ms is when its absence was first seen. An offset inside the map that no offset sync covers
-- (a broken ledger: audit_l1_tiling) is no_map, without an answer. metadata is that of the last known commit, verbatim.
-- What other flows have brought, and what a group has read at the target before, says group_translation.
select
    j.flow,
    j.group_id,
    j.source_topic,
    j.source_partition,
    j.committed_offset,
    j.target_topic,
    j.target_topic_id,
    j.target_partition,
    j.target_offset,
    j.status,
    j.absence,
    j.absent_since_ms,
    j.metadata
from judged_commits as j
inner join params as p on p.flow = j.flow
order by
    j.flow nulls last,
    j.group_id nulls last,
    j.source_topic nulls last,
    j.source_partition nulls last
