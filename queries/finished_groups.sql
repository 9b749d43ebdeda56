-- name:    finished_groups
-- answers: which groups have read all that a flow copied to its target topics, and is that all that the source has?
-- grain:   flow, group_id, target_topic, target_partition, source_topic, source_topic_id, source_partition
-- reads:   checkpoints, current_maps, ended_targets, ended_topics, last_high_watermarks, offset_syncs, partition_lags
-- params:  flow string, fresh_since_ms bigint?
-- columns: flow string, group_id string, target_cluster string, target_topic string, target_partition int,
--          target_topic_id string, source_topic string, source_topic_id string, source_partition int,
--          committed_offset bigint, read_at_ms bigint, absence string, copied_end bigint, unread_offsets bigint,
--          lag_records bigint, measured_at_ms bigint, status string
-- status:  other_target_incarnation, other_incarnation, gone, hidden, no_commit, truncated, reading, source_ended,
--          source_unknown, copying, finished
--
-- With prefixed names a group that moved to the target first drains the copy (east.T), then reads on in its own topic
-- (T): it may leave the copy when all its partitions are finished. Groups are those that had a commit on the target
-- topic at the target's cluster, each with every partition that the flow copies there. copied_end is where the flow's
-- copies end, and unread_offsets counts from the commit to there; where others write to the target too, theirs count as
-- well. lag_records is what the flow has not copied of the source, to its high watermark, as measured at
-- measured_at_ms; a source that goes on being written to is finished only for that instant.
--
-- other_target_incarnation: the target topic that the flow wrote to is gone. other_incarnation: the commit is on another
-- life of the topic. gone, hidden: the commit is not there any more; committed_offset is the last known one. no_commit:
-- the group has none here, and there is something to read. truncated: the target has lost its end since, below the
-- commit. reading: it has not read all copies; in all that follow it has. source_ended: this life of the source topic is
-- over, so nothing will follow; what it held beyond the copies is lost. source_unknown: nobody knows what the source
-- holds: it was not measured since fresh_since_ms, or ends below what was copied. copying: the flow has not copied all.
-- finished: it has.
with maps as (
    select m.*
    from current_maps as m
    inner join params as p on p.flow = m.flow
),

copied_topics as (
    select m.target_cluster, m.target_topic
    from maps as m
    group by m.target_cluster, m.target_topic
),

-- Of several rows of one round a commit counts before its absence, and the lower offset.
commits as (
    select
        c.*,
        row_number() over (
            partition by c.group_id, c.topic, c.partition
            order by c.writer_epoch desc nulls last, c.round desc nulls last, c.committed_offset asc nulls last
        ) as age,
        max_by(
            c.committed_offset,
            case when c.committed_offset is not null then c.writer_epoch * 4294967296 + c.round end
        ) over (partition by c.group_id, c.topic, c.partition) as known_offset,
        min(c.read_at_ms) over (
            partition by c.group_id, c.topic, c.partition, c.committed_offset
        ) as first_read_ms
    from checkpoints as c
    inner join copied_topics as t on t.target_cluster = c.cluster and t.target_topic = c.topic
),

readers as (
    select c.topic, c.group_id
    from commits as c
    group by c.topic, c.group_id
),

truncated as (
    select m.map_number, c.group_id
    from maps as m
    inner join commits as c on c.topic = m.target_topic and c.partition = m.target_partition
    inner join offset_syncs as o
        on o.target_topic_id = m.target_topic_id
        and o.target_partition = m.target_partition
        and o.recorded_at_ms >= c.first_read_ms
        and o.target_end < c.committed_offset
    where c.age = 1 and o.cause = 'target_truncated'
    group by m.map_number, c.group_id
),

placed as (
    select
        m.*,
        r.group_id,
        c.topic_id as committed_topic_id,
        coalesce(c.committed_offset, c.known_offset) as committed_offset,
        c.read_at_ms,
        case when c.committed_offset is null and c.age = 1 then coalesce(c.absence, 'gone') end as absence,
        greatest(m.target_end, coalesce(c.committed_offset, c.known_offset, h.log_start))
        - coalesce(c.committed_offset, c.known_offset, h.log_start) as unread_offsets,
        t.group_id is not null as is_truncated
    from maps as m
    inner join readers as r on r.topic = m.target_topic
    left join commits as c
        on c.group_id = r.group_id
        and c.topic = m.target_topic
        and c.partition = m.target_partition
        and c.age = 1
    left join last_high_watermarks as h
        on h.cluster = m.target_cluster
        and h.topic_id = m.target_topic_id
        and h.partition = m.target_partition
    left join truncated as t on t.map_number = m.map_number and t.group_id = r.group_id
)

select
    a.flow, a.group_id, a.target_cluster, a.target_topic, a.target_partition, a.target_topic_id,
    a.source_topic, a.source_topic_id, a.source_partition,
    a.committed_offset, a.read_at_ms, a.absence, a.target_end as copied_end, a.unread_offsets,
    d.lag_records_to_high_watermark as lag_records, d.measured_at_ms,
    case
        when g.map_number is not null then 'other_target_incarnation'
        when a.committed_topic_id <> a.target_topic_id then 'other_incarnation'
        when a.absence is not null then a.absence
        when a.committed_offset is null and coalesce(a.unread_offsets > 0, true) then 'no_commit'
        when a.is_truncated then 'truncated'
        when a.unread_offsets > 0 then 'reading'
        when x.topic_id is not null then 'source_ended'
        when coalesce(d.measured_at_ms < p.fresh_since_ms, d.measured_at_ms is null) then 'source_unknown'
        when d.mirrored_end > h.high_watermark then 'source_unknown'
        when d.lag_records_to_high_watermark > 0 then 'copying'
        else 'finished'
    end as status
from placed as a
cross join params as p
left join ended_targets as g on g.map_number = a.map_number
left join ended_topics as x
    on x.cluster = a.source_cluster
    and x.topic_id = a.source_topic_id
left join partition_lags as d
    on d.flow = a.flow
    and d.source_topic_id = a.source_topic_id
    and d.source_partition = a.source_partition
left join last_high_watermarks as h
    on h.cluster = a.source_cluster
    and h.topic_id = a.source_topic_id
    and h.partition = a.source_partition
order by
    a.flow nulls last, a.group_id nulls last, a.target_topic nulls last, a.target_partition nulls last,
    a.source_topic nulls last, a.source_topic_id nulls last, a.source_partition nulls last
