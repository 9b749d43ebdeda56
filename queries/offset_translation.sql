-- name:    offset_translation
-- answers: where does each group of one cluster continue at another, and what would it skip or read again?
-- grain:   group_id, source_topic, source_partition, target_topic
-- reads:   copied_ways, group_answers, read_partitions, recorded_pairs
-- params:  from_cluster string, to_cluster string, flow string?
-- columns: group_id string, source_topic string, source_partition int, committed_offset bigint,
--          target_topic string, target_topic_id string, target_partition int, target_offset bigint, status string,
--          repeated bigint, ahead bigint, others bigint, expired bigint, absence string, absent_since_ms bigint,
--          first_read_at_ms bigint, map_recorded_at_ms bigint, metadata string
-- status:  no_map, other_incarnation, other_target_incarnation, no_commit_empty, no_commit, before_first,
--          lost, expired_on_target, unplaced, extras, others, ahead, gone, hidden, truncated, rewound, exact, at_end
--
-- The rule: a group continues at the lowest record there that it has not read, by the maps of all flows between the
-- two clusters, both ways, by chains of two whose second relays, and from one origin; with nothing unread at the highest
-- end of these maps; never below the log start. A commit says that all below it is read, at either side. So following it
-- may repeat records and never skips one. Four examples, the first cases of tests/cases/offset_translation.cases.txt:
--
-- 1. one flow                        east  a0 a1 a2 a3 a4         commit 3: 5 exact, the copy of a3
--                                    west  -- -- a0 a1 a2 a3 a4   commit 5: 7 at_end
-- 2. a commit in a gap               east  a0 a1 -- -- a2         commit 2, 3 or 4: 2 exact; a marker is no record
--                                    west  a0 a1 a2
-- 3. both ways, under one name       east  a0 a1 b0 a2 b1         commit 2: 0 exact; b0 is unread, 2 are repeated
--                                    west  b0 b1 a0 a1 a2         commit 4: 1 exact; b1 is unread, 3 are repeated
-- 4. extras x0 and x1, kept at west  east  a0 a1 a2 a3            commit 3: 5 exact; if nothing was decided about x0
--                                    west  a0 a1 a2 x0 x1 a3      and x1, 3 extras
--
-- ledger/PROTOCOL.md, "Between clusters", has all that is unread; tests hold the query against first_unread of
-- tests/support/algebra. With a flow it tells of what that flow copies, by the same maps. Without one, where a topic goes
-- to one of the same name there, and to others too, only the first is told of. A partition that the group has no commit
-- on, and that nothing is recorded of, is no_commit without an offset. repeated: records behind the place that the group
-- has read. ahead: offsets that it has read and that are not there yet. others: offsets behind the place that no flow
-- between the two has carried; a group that was there has read those below its last commit there, and one that never was
-- does not wait for any. expired: what it has not read and the log there holds no more. map_recorded_at_ms: when the map
-- that is told of last was recorded last; first_read_at_ms: when the commit was first seen.
with ways as (
    select w.here_topic, w.here_partition, w.there_topic, w.there_partition
    from copied_ways as w
    inner join params as a on a.from_cluster = w.here_cluster and a.to_cluster = w.there_cluster
    where coalesce(w.flow = a.flow, a.flow is null)
    group by w.here_topic, w.here_partition, w.there_topic, w.there_partition
),

chosen as (
    select p.*
    from recorded_pairs as p
    inner join params as a on a.from_cluster = p.here_cluster and a.to_cluster = p.there_cluster
    left join ways as w using (here_topic, here_partition, there_topic, there_partition)
    where case when a.flow is null then p.is_first else w.here_topic is not null end
),

judged as (
    select
        a.group_id, a.source_topic, a.source_partition, a.committed_offset, a.target_topic, a.target_topic_id,
        a.target_partition, a.target_offset, a.status, a.repeated, a.ahead, a.others, a.expired, a.absence,
        a.absent_since_ms, a.first_read_at_ms, a.map_recorded_at_ms, a.metadata
    from chosen as p
    inner join group_answers as a using (pair_number)
),

-- Where nothing is recorded between the current incarnations.
unpaired as (
    select
        c.group_id, c.topic as source_topic, c.partition as source_partition, c.committed_offset,
        f.there_topic as target_topic, cast(null as string) as target_topic_id, f.there_partition as target_partition,
        cast(null as bigint) as target_offset,
        case
            when c.committed_offset is null then 'no_commit'
            when f.there_topic is null then 'no_map'
            else 'other_target_incarnation'
        end as status,
        cast(null as bigint) as repeated, cast(null as bigint) as ahead, cast(null as bigint) as others,
        cast(null as bigint) as expired, c.absence, c.absent_since_ms, c.first_read_ms as first_read_at_ms,
        cast(null as bigint) as map_recorded_at_ms, c.metadata
    from read_partitions as c
    inner join params as a on a.from_cluster = c.cluster
    left join chosen as p
        on p.here_topic = c.topic
        and p.here_partition = c.partition
    left join ways as f
        on f.here_topic = c.topic
        and f.here_partition = c.partition
    where p.pair_number is null
        and (c.committed_offset is not null or c.topic in (select here_topic from ways))
)

select *
from judged
union all
select *
from unpaired
order by
    group_id nulls last,
    source_topic nulls last,
    source_partition nulls last,
    target_topic nulls last
