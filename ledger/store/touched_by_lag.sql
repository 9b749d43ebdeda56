-- Which spans tell how far a flow was when the ends of its source were measured: `touched`. Those that were recorded while
-- they were, the first ones of each map, and what flows have written to the source behind the place where this one stood
-- before. `measured`: these ends.
create temporary table measured as
select e.*, cast(null as bigint) as brought_offsets
from last_claims as c
inner join measured_ends as e on e.cluster = c.source_cluster
left join ended_topics as x using (cluster, topic, topic_id)
where c.flow = getvariable('flow') and x.topic_id is null;

create temporary table touched as
with own as (
    select n.*, e.read_at_ms, e.measured_at_ms, e.high_watermark, e.cluster as log_cluster
    from numbered_spans as n
    left join measured as e
        on e.topic = n.source_topic
        and e.topic_id = n.source_topic_id
        and e.partition = n.source_partition
    where n.flow = getvariable('flow')
),

-- Below it the flow stood at no time that matters: what it had recorded before the read, or what was taken from it.
stood as (
    select
        log_cluster,
        source_topic,
        source_topic_id,
        source_partition,
        max(high_watermark) as high_watermark,
        least(
            coalesce(max(case when recorded_at_ms <= read_at_ms then source_end end), 0),
            min(case when kind = 'superseded' then source_start end)
        ) as stood_at
    from own
    where log_cluster is not null
    group by log_cluster, source_topic, source_topic_id, source_partition
),

firsts as (
    select min(place) as place, source_topic, source_topic_id, source_partition
    from own
    group by source_topic, source_topic_id, source_partition
)

select span_number
from own
where first_recorded_at_ms <= measured_at_ms and recorded_at_ms >= read_at_ms
union
select o.span_number
from own as o
inner join firsts as f using (place, source_topic, source_topic_id, source_partition)
union
select n.span_number
from numbered_spans as n
inner join stood as s
    on s.log_cluster = n.target_cluster
    and s.source_topic = n.target_topic
    and s.source_topic_id = n.target_topic_id
    and s.source_partition = n.target_partition
    and n.target_end > s.stood_at
    and n.span_target_start < s.high_watermark;
