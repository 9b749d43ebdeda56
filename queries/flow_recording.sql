-- name:    flow_recording
-- answers: when were the groups and the ends of a flow's clusters last recorded?
-- grain:   flow, side
-- reads:   checkpoints, high_watermarks, last_claims, writers
-- params:  flow string
-- columns: flow string, side string, cluster string, checkpoints_at_ms bigint, ends_at_ms bigint
-- status:  none
--
-- side is source or target. A recorder appends commits that changed, and all of them at every full sweep; ends that
-- changed, and a heartbeat when they did not. An age of several sweeps, or heartbeats, says that nobody records,
-- null that nobody ever did (of checkpoints: or that no group has committed). Times are those of the recorder's host.
with sides as (
    select c.flow, 'source' as side, c.source_cluster as cluster
    from last_claims as c
    union all
    select c.flow, 'target' as side, c.target_cluster as cluster
    from last_claims as c
),

groups_recorded as (
    select k.cluster, max_by(k.recorded_at_ms, k.writer_epoch * 4294967296 + k.round) as recorded_at_ms
    from checkpoints as k
    group by k.cluster
),

ends_told as (
    select h.cluster, h.recorded_at_ms, h.writer_epoch, h.round
    from high_watermarks as h
    union all
    select w.source_cluster as cluster, w.recorded_at_ms, w.writer_epoch, w.round
    from writers as w
    where w.event = 'alive' and w.flow is null
),

ends_recorded as (
    select t.cluster, max_by(t.recorded_at_ms, t.writer_epoch * 4294967296 + t.round) as recorded_at_ms
    from ends_told as t
    group by t.cluster
)

select
    s.flow,
    s.side,
    s.cluster,
    g.recorded_at_ms as checkpoints_at_ms,
    e.recorded_at_ms as ends_at_ms
from sides as s
inner join params as p on p.flow = s.flow
left join groups_recorded as g on g.cluster = s.cluster
left join ends_recorded as e on e.cluster = s.cluster
order by s.flow nulls last, s.side nulls last
