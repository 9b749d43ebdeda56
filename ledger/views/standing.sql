-- Where groups stand at two clusters, and where they would.

-- The answer of offset_translation for each group that is asked of each pair.
create or replace temporary view group_answers as
select
    p.pair_number, p.here_topic_id as source_topic_id, g.group_id, p.here_topic as source_topic,
    p.here_partition as source_partition, g.committed_offset, p.there_topic as target_topic,
    p.there_topic_id as target_topic_id, p.there_partition as target_partition, x.place as target_offset,
    case
        when g.committed_offset is not null and g.topic_id is distinct from p.here_topic_id
            then 'other_incarnation'
        when g.committed_offset is null and p.is_empty then 'no_commit_empty'
        when g.committed_offset is null then 'no_commit'
        when g.committed_offset < p.here_start then 'before_first'
        when x.is_lost then 'lost'
        when x.expired > 0 then 'expired_on_target'
        when x.is_unplaced then 'unplaced'
        when x.is_alone then 'extras'
        when x.is_others then 'others'
        when x.ahead > 0 then 'ahead'
        when g.absence is not null then g.absence
        when r.is_capped then 'truncated'
        when r.is_rewound then 'rewound'
        when x.is_unread then 'exact'
        else 'at_end'
    end as status,
    x.repeats as repeated, x.ahead, x.others, x.expired, g.absence, g.absent_since_ms,
    g.first_read_ms as first_read_at_ms, p.map_recorded_at_ms, g.metadata
from recorded_pairs as p
inner join asked_groups as g using (pair_number)
inner join group_reads as r using (asked_number)
left join group_places as x
    on x.asked_number = g.asked_number
    and coalesce(g.topic_id = p.here_topic_id, g.committed_offset is null);

-- Groups of a flow's source that the target does not have where they continue there by the maps of all flows, or of
-- which nobody knows where they stand, and such that have a commit at the target alone. target_offset is where the
-- group stands there, wanted_offset where it would.
create or replace temporary view group_differences as
with answered as (
    select b.flow, a.*
    from map_bounds as b
    inner join group_answers as a
        on a.source_topic_id = b.source_topic_id
        and a.source_partition = b.source_partition
        and a.target_topic_id = b.target_topic_id
),

known as (
    select flow, source_topic, source_partition
    from last_syncs
    group by flow, source_topic, source_partition
)

select
    j.flow,
    j.group_id,
    j.topic as source_topic,
    j.partition as source_partition,
    j.committed_offset,
    a.target_topic,
    a.target_partition,
    a.target_offset as wanted_offset,
    t.committed_offset as target_offset,
    case
        when a.target_offset is null then 'untranslated'
        when t.committed_offset is null then 'no_commit'
        when t.committed_offset <> a.target_offset then 'elsewhere'
        else 'metadata'
    end as status,
    coalesce(a.status, case when k.flow is null then 'no_map' else 'other_target_incarnation' end) as cause
from last_commits as j
inner join last_claims as c on c.flow = j.flow
left join known as k
    on k.flow = j.flow
    and k.source_topic = j.topic
    and k.source_partition = j.partition
left join answered as a
    on a.flow = j.flow
    and a.group_id = j.group_id
    and a.source_topic = j.topic
    and a.source_partition = j.partition
left join cluster_commits as t
    on t.cluster = c.target_cluster
    and t.group_id = j.group_id
    and t.topic_id = a.target_topic_id
    and t.partition = a.target_partition
    and t.absence is null
where j.absence is null
    and (
        coalesce(t.committed_offset <> a.target_offset, true)
        or coalesce(t.metadata, '') <> coalesce(j.metadata, '')
    )
union all
select
    b.flow,
    t.group_id,
    b.source_topic,
    b.source_partition,
    cast(null as bigint) as committed_offset,
    b.target_topic,
    b.target_partition,
    cast(null as bigint) as wanted_offset,
    t.committed_offset as target_offset,
    'target_alone' as status,
    j.absence as cause
from map_bounds as b
inner join cluster_commits as t
    on t.cluster = b.target_cluster
    and t.topic_id = b.target_topic_id
    and t.partition = b.target_partition
    and t.absence is null
left join last_commits as j
    on j.flow = b.flow
    and j.group_id = t.group_id
    and j.topic = b.source_topic
    and j.partition = b.source_partition
where j.group_id is null or j.absence is not null
union all
select
    c.flow,
    g.group_id,
    cast(null as string) as source_topic,
    cast(null as int) as source_partition,
    cast(null as bigint) as committed_offset,
    cast(null as string) as target_topic,
    cast(null as int) as target_partition,
    cast(null as bigint) as wanted_offset,
    cast(null as bigint) as target_offset,
    case when g.event = 'present' then 'share_group' else 'unread' end as status,
    case when g.event <> 'present' then g.event end as cause
from last_groups as g
inner join last_claims as c on c.source_cluster = g.cluster
where g.event in ('hidden', 'unavailable') or (g.event = 'present' and g.group_type = 'share');
