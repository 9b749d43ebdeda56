-- name:    not_equal
-- answers: what of a flow is not the same at both sides, and why: ranges of records, topics, settings and groups?
-- grain:   flow, subject, source_topic, source_partition, source_start, target_start, status, cause, name
-- reads:   group_differences, record_differences, setting_differences, topic_differences
-- params:  flow string
-- columns: flow string, subject string, source_topic string, source_partition int, source_start bigint,
--          source_end bigint, target_topic string, target_partition int, target_start bigint, target_end bigint,
--          held_by string, name string, source_value string, target_value string, offsets bigint, status string,
--          cause string
-- status:  before_start, behind_transaction, cleaned, differs, does_not_follow, elsewhere, expired, former_life,
--          left_out, lost, metadata, missing, more_partitions, needed, no_commit, not_mirrored, partly,
--          share_group, source_deleted, stopped, surplus, target_alone, target_deleted, unclaimed, unknown,
--          unpaired, unread, untranslated, waiting
--
-- Of what readers of committed records see: transaction markers, aborted records and what the source's own cleaner had
-- removed before it was copied are in no row, nor is what other mirrors wrote at the source. As of the last readings
-- of both clusters.
--
-- subject records: held_by is the side that has the records of a range: source, target or neither. left_out, by the
-- cause of the gap. lost and unpaired, by theirs. expired: the log of the other side begins behind them. before_start:
-- from before the flow began. waiting: to be copied; behind_transaction: when one that is open ends; stopped: when its
-- partition is resumed, by the cause of the stop. former_life: of a topic of that name that was deleted. unclaimed: no
-- row that holds says what they are: what the source took back (with that cause), what somebody else wrote, what is
-- not recorded yet. unknown: the ends of a log were never read.
--
-- subject topic: not_mirrored, or partly, whether the flow's patterns select it or not, with an open finding that says
-- why as cause; more_partitions at the target; source_deleted, and
-- kept at the target; target_deleted, and not copied again; cleaned: cleaners of both clusters remove older records of
-- a key, each in its time; with the cause tombstones_may_be_missing keys that are deleted at the source may remain.
--
-- subject setting, by name: needed: as copying needs it; else as in topic_drift.
--
-- subject group, by name: no_commit and elsewhere: it is not where its commit (source_start) translates to by the maps
-- of all flows, as in offset_translation (target_end; target_start is where it stands), with the status of that as
-- cause; untranslated: the commit leads nowhere; metadata: that alone differs; target_alone: only the target has a
-- commit, with the cause why the source has it no more; unread: commits at the source are hidden or unavailable;
-- share_group: its place is not copied.
with differences as (
    select
        r.flow, 'records' as subject, r.source_topic, r.source_partition, r.source_start, r.source_end, r.target_topic,
        r.target_partition, r.target_start, r.target_end, r.held_by, cast(null as string) as name,
        cast(null as string) as source_value, cast(null as string) as target_value, r.offsets, r.status, r.cause
    from record_differences as r
    inner join params as p on p.flow = r.flow
    union all
    select
        t.flow, 'topic' as subject, t.source_topic, cast(null as int) as source_partition,
        cast(null as bigint) as source_start, cast(null as bigint) as source_end, t.target_topic,
        cast(null as int) as target_partition, cast(null as bigint) as target_start, cast(null as bigint) as target_end,
        cast(null as string) as held_by, cast(null as string) as name, cast(null as string) as source_value,
        cast(null as string) as target_value, cast(null as bigint) as offsets, t.status, t.cause
    from topic_differences as t
    inner join params as p on p.flow = t.flow
    union all
    select
        s.flow, 'setting' as subject, s.source_topic, cast(null as int) as source_partition,
        cast(null as bigint) as source_start, cast(null as bigint) as source_end, s.target_topic,
        cast(null as int) as target_partition, cast(null as bigint) as target_start, cast(null as bigint) as target_end,
        cast(null as string) as held_by, s.setting as name, s.source_value, s.target_value,
        cast(null as bigint) as offsets, s.status, cast(null as string) as cause
    from setting_differences as s
    inner join params as p on p.flow = s.flow
    union all
    select
        g.flow, 'group' as subject, g.source_topic, g.source_partition, g.committed_offset as source_start,
        cast(null as bigint) as source_end, g.target_topic, g.target_partition, g.target_offset as target_start,
        g.wanted_offset as target_end, cast(null as string) as held_by, g.group_id as name,
        cast(null as string) as source_value, cast(null as string) as target_value, cast(null as bigint) as offsets,
        g.status, g.cause
    from group_differences as g
    inner join params as p on p.flow = g.flow
)

select *
from differences
order by
    flow nulls last,
    subject nulls last,
    source_topic nulls last,
    source_partition nulls last,
    name nulls last,
    source_start nulls last,
    target_start nulls last,
    status nulls last,
    cause nulls last
