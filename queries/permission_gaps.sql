-- name:    permission_gaps
-- answers: what may applications do at one cluster and not at another one, as far as is recorded?
-- grain:   kind, cluster, entity, setting, host, operation, permission_type, resource_type, resource_name,
--          pattern_type, target_name, target_pattern
-- reads:   last_permission_readings, last_permissions, topic_pairs
-- params:  source string, target string
-- columns: kind string, cluster string, entity string, setting string, host string, operation string,
--          permission_type string, resource_type string, resource_name string, pattern_type string,
--          target_name string, target_pattern string, source_value double, target_value double, status string
-- status:  never_recorded, not_permitted, refused, not_enforced, missing, different, denied_at_target
--
-- source and target are aliases of clusters. never_recorded, not_permitted, refused, not_enforced: of that kind nothing
-- is compared, for the reason that the row of that cluster gives; of the last known list answers a cut before it
-- (--as-of). An authorizer that only the target lacks is no gap. missing: the target lacks the permission of the source.
-- different: it has another value. denied_at_target: a deny of the target that no deny of the source covers.
-- An access control list is there when one of the target covers it: the same principal or User:*, host or *, operation,
-- all, or one that implies it, name, * or a prefix. A topic that a flow between the two renames is sought by its name at
-- the target (target_name); a rule for a prefix also for each such topic, by a literal name. What several rules cover
-- together is missing. Super users are not recorded.
with readings as (
    select
        k.kind,
        s.cluster,
        s.side,
        coalesce(r.reading, 'never_recorded') as reading,
        coalesce(o.reading, 'never_recorded') as other_reading
    from (
        select source as cluster, target as other, 'source' as side from params
        union all
        select target as cluster, source as other, 'target' as side from params
    ) as s
    cross join (
        select 'acl' as kind union all select 'scram_user' as kind union all select 'quota' as kind
    ) as k
    left join last_permission_readings as r on r.cluster = s.cluster and r.kind = k.kind
    left join last_permission_readings as o on o.cluster = s.other and o.kind = k.kind
),

compared as (
    select l.*, r.side
    from last_permissions as l
    inner join readings as r on r.cluster = l.cluster and r.kind = l.kind
    where r.other_reading = 'readable'
),

names as (
    select t.source_topic as topic, t.target_topic as target_name
    from topic_pairs as t
    inner join params as p on p.source = t.source_cluster and p.target = t.target_cluster
    union
    select t.target_topic as topic, t.source_topic as target_name
    from topic_pairs as t
    inner join params as p on p.source = t.target_cluster and p.target = t.source_cluster
),

rules as (
    select c.*, coalesce(n.target_name, c.resource_name) as target_name, c.pattern_type as target_pattern
    from compared as c
    left join names as n
        on n.topic = c.resource_name
        and c.side = 'source'
        and c.resource_type = 'topic'
        and c.pattern_type = 'literal'
    where c.kind = 'acl'
    union all
    select c.*, n.target_name, 'literal' as target_pattern
    from compared as c
    inner join names as n
        on substring(n.topic, 1, length(c.resource_name)) = c.resource_name
        and n.topic <> n.target_name
    where c.side = 'source' and c.resource_type = 'topic' and c.pattern_type = 'prefixed'
),

uncovered as (
    select s.*
    from rules as s
    where (s.side = 'source' or s.permission_type = 'deny')
        and not exists (
            select 1
            from rules as w
            where w.side <> s.side
                and w.permission_type = s.permission_type
                and w.resource_type = s.resource_type
                and w.entity in (s.entity, 'User:*')
                and w.host in (s.host, '*')
                and (
                    w.operation in (s.operation, 'all')
                    or s.permission_type = 'allow'
                    and s.operation = 'describe'
                    and w.operation in ('read', 'write', 'delete', 'alter')
                    or s.permission_type = 'allow'
                    and s.operation = 'describe_configs'
                    and w.operation = 'alter_configs'
                )
                and (
                    w.target_name = s.target_name
                    and w.target_pattern = s.target_pattern
                    or w.target_name = '*'
                    and w.target_pattern = 'literal'
                    or substring(s.target_name, 1, length(w.target_name)) = w.target_name
                    and w.target_pattern = 'prefixed'
                    and s.target_name <> '*'
                )
        )
),

lacking as (
    select
        u.*,
        cast(null as double) as target_value,
        case when u.side = 'source' then 'missing' else 'denied_at_target' end as status
    from uncovered as u
    union all
    select
        a.*,
        cast(null as string) as target_name,
        cast(null as string) as target_pattern,
        b.value as target_value,
        case when b.value is null then 'missing' else 'different' end as status
    from compared as a
    left join compared as b
        on b.kind = a.kind
        and b.entity = a.entity
        and b.setting = a.setting
        and b.side = 'target'
    where a.side = 'source' and a.kind <> 'acl' and coalesce(b.value <> a.value, true)
)

select
    r.kind, r.cluster, g.entity, g.setting, g.host, g.operation, g.permission_type, g.resource_type,
    g.resource_name, g.pattern_type, g.target_name, g.target_pattern,
    g.value as source_value, g.target_value, coalesce(g.status, r.reading) as status
from readings as r
left join lacking as g on g.kind = r.kind and g.side = r.side
where coalesce(g.status, r.reading) <> 'readable'
    and case when r.side = 'target' then r.reading else r.other_reading end <> 'not_enforced'
order by
    r.kind nulls last, r.cluster nulls last, g.entity nulls last, g.setting nulls last, g.host nulls last,
    g.operation nulls last, g.permission_type nulls last, g.resource_type nulls last, g.resource_name nulls last,
    g.pattern_type nulls last, g.target_name nulls last, g.target_pattern nulls last
