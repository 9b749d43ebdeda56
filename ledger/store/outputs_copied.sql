-- The last reading of a cluster by which all that topics of it held was at another one: its place in the order of the
-- recorder, which reads commits before ends. Null: there is no such reading, or of one of the topics or its partitions
-- nothing was read. A sign of life is a reading that saw what had been recorded last in the same epoch.
with outputs as (
    select a.topic, t.topic_id
    from (select unnest($outputs) as topic) as a
    left join current_topics as t
        on t.cluster = $from_cluster
        and t.topic = a.topic
),

-- Up to where each flow has each partition at the other cluster: the first offset that was lost, left out by a filter or
-- decided to stay is not there, whatever was copied behind it. Markers, aborted records and what cleaners removed applications never see.
copied as (
    select
        c.source_topic_id as topic_id,
        c.source_partition as partition,
        max(least(c.covered_end, coalesce(m.source_start, c.covered_end))) as copied_to
    from covered_ends as c
    inner join last_claims as f using (flow)
    left join (
        select flow, source_topic, source_topic_id, source_partition, min(source_start) as source_start
        from gaps
        where cause not in (select cause from causes where kind = 'gap' and not is_unmatched)
        group by flow, source_topic, source_topic_id, source_partition
    ) as m using (flow, source_topic, source_topic_id, source_partition)
    where f.source_cluster = $from_cluster and f.target_cluster = $to_cluster
    group by c.source_topic_id, c.source_partition
),

readings as (
    select
        h.topic_id,
        h.partition,
        h.writer_epoch,
        h.writer_epoch * 4294967296 + h.round as reading_order,
        lead(h.writer_epoch * 4294967296 + h.round) over (
            partition by h.topic_id, h.partition
            order by h.writer_epoch, h.round
        ) as next_order,
        h.high_watermark <= coalesce(c.copied_to, 0) as is_copied
    from high_watermarks as h
    inner join outputs as o using (topic_id)
    left join copied as c using (topic_id, partition)
    where h.cluster = $from_cluster
),

-- Of each partition the last of them, null where there is none.
last_copied as (
    select
        topic_id,
        partition,
        max_by(writer_epoch, reading_order) filter (where is_copied) as writer_epoch,
        max(reading_order) filter (where is_copied) as reading_order,
        max_by(coalesce(next_order, 9223372036854775807), reading_order) filter (where is_copied) as next_order
    from readings
    group by topic_id, partition
),

confirmed as (
    select
        l.topic_id,
        l.partition,
        coalesce(max(s.writer_epoch * 4294967296 + s.round), l.reading_order) as reading_order
    from last_copied as l
    left join recorder_signs as s
        on s.cluster = $from_cluster
        and s.writer_epoch = l.writer_epoch
        and s.writer_epoch * 4294967296 + s.round between l.reading_order and l.next_order - 1
    group by l.topic_id, l.partition, l.reading_order
),

partitions as (
    select topic_id, max_by(partitions, writer_epoch * 4294967296 + round) as known
    from topics
    where cluster = $from_cluster
    group by topic_id
),

of_topics as (
    select
        o.topic,
        case
            when count(c.reading_order) = greatest(count(*), coalesce(max(p.known), 0)) then min(c.reading_order)
        end as reading_order
    from outputs as o
    left join confirmed as c using (topic_id)
    left join partitions as p using (topic_id)
    group by o.topic
)

select case when count(reading_order) = count(*) then min(reading_order) end
from of_topics
