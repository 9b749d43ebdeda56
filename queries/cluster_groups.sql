-- name:    cluster_groups
-- answers: which groups does a cluster have, of which type are they, and of which is it unknown what they have read?
-- grain:   cluster, group_id
-- reads:   checkpoints, last_group_listings, last_groups, last_share_offsets
-- params:  cluster string
-- columns: cluster string, group_id string, group_type string, protocol_type string, group_state string,
--          has_members boolean, commits bigint, pending_commits bigint, share_partitions bigint, reason string,
--          read_at_ms bigint, status string
-- status:  not_recorded, permitted_listed, never_listed, gone, hidden, unavailable, share_group, no_commits, committed
--
-- A row without group_id is about the cluster: not_recorded: nobody has recorded which groups it has;
-- permitted_listed: recorders were shown only groups that they may describe, and there may be others.
-- never_listed: its commits were recorded, by a program that did not record groups. gone, hidden, unavailable: as in
-- the table groups; what is counted beside it is what was known last. share_group: it has share-partition start offsets
-- and no commits, so it has no translation. no_commits: it has nothing to be translated. pending_commits: partitions on
-- which an open transaction had committed another offset. group_state and has_members are as of read_at_ms: a change of
-- the state alone is not recorded.
with listed as (
    select g.*
    from last_groups as g
    inner join params as p on p.cluster = g.cluster
),

aged as (
    select
        c.group_id,
        c.committed_offset,
        c.transaction_pending,
        row_number() over (
            partition by c.group_id, c.topic, c.partition
            order by c.writer_epoch desc nulls last, c.round desc nulls last
        ) as age
    from checkpoints as c
    inner join params as p on p.cluster = c.cluster
),

counted as (
    select
        group_id,
        count(committed_offset) as commits,
        count(case when transaction_pending then 1 end) as pending_commits
    from aged
    where age = 1
    group by group_id
),

shared as (
    select s.group_id, count(*) as share_partitions
    from last_share_offsets as s
    inner join params as p on p.cluster = s.cluster
    where s.absence is null
    group by s.group_id
),

known as (
    select group_id
    from listed
    union
    select group_id
    from counted
),

answers as (
    select
        k.group_id,
        g.group_type,
        g.protocol_type,
        g.group_state,
        g.has_members,
        coalesce(c.commits, 0) as commits,
        coalesce(c.pending_commits, 0) as pending_commits,
        coalesce(s.share_partitions, 0) as share_partitions,
        g.reason,
        g.read_at_ms,
        case
            when g.event is null then 'never_listed'
            when g.event <> 'present' then g.event
            when g.group_type = 'share' then 'share_group'
            when coalesce(c.commits, 0) = 0 then 'no_commits'
            else 'committed'
        end as status
    from known as k
    left join listed as g using (group_id)
    left join counted as c using (group_id)
    left join shared as s using (group_id)
    union all
    select
        cast(null as string) as group_id,
        cast(null as string) as group_type,
        cast(null as string) as protocol_type,
        cast(null as string) as group_state,
        cast(null as boolean) as has_members,
        cast(null as bigint) as commits,
        cast(null as bigint) as pending_commits,
        cast(null as bigint) as share_partitions,
        cast(null as string) as reason,
        l.read_at_ms,
        coalesce(l.listing, 'not_recorded') as status
    from params as p
    left join last_group_listings as l using (cluster)
    where coalesce(l.listing, 'not_recorded') <> 'all_listed'
)

select
    p.cluster,
    a.group_id,
    a.group_type,
    a.protocol_type,
    a.group_state,
    a.has_members,
    a.commits,
    a.pending_commits,
    a.share_partitions,
    a.reason,
    a.read_at_ms,
    a.status
from answers as a
cross join params as p
order by p.cluster nulls last, a.group_id nulls last
