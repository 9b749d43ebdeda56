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

-- Each setting of the topics that flows copied last, at both sides, with what the rule of following makes of the source's.
create or replace temporary view followed_settings as
with needed as (
    select 'compression.type' as setting, 'producer' as value
    union all
    select 'message.timestamp.type' as setting, 'CreateTime' as value
    union all
    select 'message.timestamp.before.max.ms' as setting, '9223372036854775807' as value
    union all
    select 'message.timestamp.after.max.ms' as setting, '9223372036854775807' as value
),

compared as (
    select p.flow, p.source_topic, n.setting
    from topic_pairs as p
    cross join needed as n
    union
    select p.flow, p.source_topic, s.setting
    from topic_pairs as p
    inner join last_topic_settings as s
        on s.cluster = p.source_cluster
        and s.topic_id = p.source_topic_id
    union
    select p.flow, p.source_topic, s.setting
    from topic_pairs as p
    inner join last_topic_settings as s
        on s.cluster = p.target_cluster
        and s.topic_id = p.target_topic_id
),

valued as (
    select
        p.flow,
        c.source_topic,
        p.target_topic,
        c.setting,
        a.value as source_value,
        n.value as needed_value,
        b.value as target_value,
        y.replication_factor as target_replicas,
        x.topic_id is not null and y.topic_id is not null as is_known,
        case
            when n.setting is not null then 1
            when c.setting like 'message.%' and c.setting <> 'message.timestamp.type' then 0
            when c.setting like '%.replication.throttled.replicas' then 0
            when c.setting like 'remote.%' then 0
            when c.setting like 'local.retention.%' then 0
            when c.setting like 'confluent.%' then 0
            when c.setting like 'compression.%' then 0
            when c.setting = 'unclean.leader.election.enable' then 0
            when c.setting = 'max.message.bytes'
                and least(try_cast(a.value as bigint), try_cast(b.value as bigint)) <= 128 then 0
            when c.setting = 'max.message.bytes'
                and try_cast(b.value as bigint) > coalesce(try_cast(a.value as bigint), 0) then 0
            else 1
        end as follows
    from compared as c
    inner join topic_pairs as p using (flow, source_topic)
    left join needed as n using (setting)
    left join last_topic_states as x
        on x.cluster = p.source_cluster
        and x.topic_id = p.source_topic_id
    left join last_topic_states as y
        on y.cluster = p.target_cluster
        and y.topic_id = p.target_topic_id
    left join last_topic_settings as a
        on a.cluster = p.source_cluster
        and a.topic_id = p.source_topic_id
        and a.setting = c.setting
    left join last_topic_settings as b
        on b.cluster = p.target_cluster
        and b.topic_id = p.target_topic_id
        and b.setting = c.setting
),

wanted as (
    select
        v.*,
        case
            when v.follows = 0 then null
            when v.needed_value is not null then v.needed_value
            when v.setting = 'min.insync.replicas' and v.source_value is not null
                then cast(least(try_cast(v.source_value as int), v.target_replicas) as string)
            else v.source_value
        end as wanted_value
    from valued as v
)

select
    flow,
    source_topic,
    target_topic,
    setting,
    source_value,
    wanted_value,
    target_value,
    case
        when not is_known then 'unknown'
        when follows = 0 then 'does_not_follow'
        when wanted_value = target_value then 'same'
        when target_value is null then 'missing'
        when wanted_value is null then 'surplus'
        else 'differs'
    end as status
from wanted;
