-- What recorders saw of topics and of the ends of their partitions.

-- One recorder writes a cluster's high watermarks, so (writer_epoch, round) orders them.
create or replace temporary view last_high_watermarks as
with last_rounds as (
    select
        cluster,
        topic,
        topic_id,
        partition,
        max(writer_epoch * 4294967296 + round) as recorded_order
    from high_watermarks
    group by cluster, topic, topic_id, partition
),

aged as (
    select
        h.*,
        row_number() over (
            partition by h.cluster, h.topic, h.topic_id, h.partition
            order by
                h.read_at_ms desc nulls last,
                h.recorded_at_ms desc nulls last,
                h.log_start desc nulls last,
                h.last_stable desc nulls last,
                h.high_watermark desc nulls last
        ) as age
    from high_watermarks as h
    inner join last_rounds as l
        on l.cluster = h.cluster
        and l.topic = h.topic
        and l.topic_id = h.topic_id
        and l.partition = h.partition
        and l.recorded_order = h.writer_epoch * 4294967296 + h.round
)

select
    cluster,
    topic,
    topic_id,
    partition,
    log_start,
    last_stable,
    high_watermark,
    read_at_ms,
    confirms_others,
    writer_epoch,
    round,
    recorded_at_ms
from aged
where age = 1;

-- Lives of topics that are over: the topic was deleted, or has another id by now.
create or replace temporary view ended_topics as
with lives as (
    select
        cluster,
        topic,
        topic_id,
        event,
        row_number() over (
            partition by cluster, topic
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from topics
)

select l.cluster, l.topic, l.topic_id
from lives as l
inner join lives as n on n.cluster = l.cluster and n.topic = l.topic and n.age = 1
where n.event = 'deleted' or n.topic_id <> l.topic_id
group by l.cluster, l.topic, l.topic_id;

-- The lives of a topic name that the recorder of its cluster has seen, and when each was seen last.
create or replace temporary view topic_lives as
with sightings as (
    select cluster, topic, topic_id, writer_epoch, round, recorded_at_ms
    from topics
    union all
    select cluster, topic, topic_id, writer_epoch, round, recorded_at_ms
    from high_watermarks
)

select
    cluster,
    topic,
    topic_id,
    max(writer_epoch * 4294967296 + round) as last_order,
    max(recorded_at_ms) as last_at_ms
from sightings
group by cluster, topic, topic_id;

-- What was set on a topic itself, each time that it was recorded: a row for each setting.
create or replace temporary view topic_settings as
with entries as (
    select cluster, topic, topic_id, event, entries_of(configuration) as settings, writer_epoch, round, recorded_at_ms
    from topics
    where is_json(configuration)
),

single as (
    select *, explode(settings) as entry
    from entries
)

select
    cluster,
    topic,
    topic_id,
    event,
    entry.key as setting,
    entry.value as value,
    writer_epoch,
    round,
    recorded_at_ms
from single;

-- Each life of a topic as it was recorded last, deleted ones too.
create or replace temporary view last_topic_states as
with aged as (
    select
        *,
        row_number() over (
            partition by cluster, topic_id
            order by writer_epoch desc nulls last, round desc nulls last, event nulls last
        ) as age
    from topics
)

select cluster, topic, topic_id, event, replication_factor, writer_epoch, round, recorded_at_ms
from aged
where age = 1;

-- What was set on each life of a topic itself, as it was recorded last.
create or replace temporary view last_topic_settings as
select s.cluster, s.topic, s.topic_id, s.setting, s.value
from topic_settings as s
inner join last_topic_states as l using (cluster, topic_id, writer_epoch, round, event);
