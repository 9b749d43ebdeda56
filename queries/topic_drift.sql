-- name:    topic_drift
-- answers: where do the settings of a flow's target topics differ from what they follow?
-- grain:   flow, source_topic, setting
-- reads:   last_topic_settings, last_topic_states, topic_pairs
-- params:  flow string
-- columns: flow string, source_topic string, target_topic string, setting string,
--          source_value string, wanted_value string, target_value string, status string
-- status:  unknown, does_not_follow, same, missing, differs, surplus
--
-- Compared are the settings that were set on the topics themselves, as last recorded for the topic ids that
-- the flow copied last. wanted_value is the rule of following without the flow's own patterns: what copying
-- needs, else the source's value. unknown: no state of one of the topics is recorded. does_not_follow: belongs
-- to a cluster, is a fence, or a limit that is higher at the target, which is never lowered. missing: the target
-- topic has its cluster's default. surplus: only the target topic has it.
with mirrored as (
    select
        t.flow,
        t.source_cluster,
        t.source_topic,
        t.source_topic_id,
        t.target_cluster,
        t.target_topic,
        t.target_topic_id
    from topic_pairs as t
    inner join params as p on p.flow = t.flow
),

needed as (
    select 'compression.type' as setting, 'producer' as value
    union all
    select 'message.timestamp.type' as setting, 'CreateTime' as value
    union all
    select 'message.timestamp.before.max.ms' as setting, '9223372036854775807' as value
    union all
    select 'message.timestamp.after.max.ms' as setting, '9223372036854775807' as value
),

compared as (
    select p.source_topic, n.setting
    from mirrored as p
    cross join needed as n
    union
    select p.source_topic, s.setting
    from mirrored as p
    inner join last_topic_settings as s
        on s.cluster = p.source_cluster
        and s.topic_id = p.source_topic_id
    union
    select p.source_topic, s.setting
    from mirrored as p
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
    inner join mirrored as p using (source_topic)
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
    w.flow,
    w.source_topic,
    w.target_topic,
    w.setting,
    w.source_value,
    w.wanted_value,
    w.target_value,
    case
        when not w.is_known then 'unknown'
        when w.follows = 0 then 'does_not_follow'
        when w.wanted_value = w.target_value then 'same'
        when w.target_value is null then 'missing'
        when w.wanted_value is null then 'surplus'
        else 'differs'
    end as status
from wanted as w
order by
    w.flow nulls last,
    w.source_topic nulls last,
    w.setting nulls last
