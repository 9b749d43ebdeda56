-- name:    group_positions
-- answers: how far has each group read at either of two clusters, and by what is that known?
-- grain:   group_id, topic, partition, other_topic
-- reads:   answered_pairs, asked_groups, group_reads
-- params:  from_cluster string, to_cluster string
-- columns: group_id string, topic string, partition int, committed_offset bigint, absence string, read_to bigint,
--          other_topic string, other_partition int, other_committed_offset bigint, left_offset bigint,
--          arrived_offset bigint, other_read_to bigint, other_alone_to bigint, others_read_to bigint,
--          is_rewound boolean, is_capped boolean
--
-- The first cluster is where the group is asked about, the other one where it may have been, or may go. committed_offset
-- and other_committed_offset are the last known commits on the current incarnations of both topics. left_offset and
-- arrived_offset: the last recorded move from the other cluster. All below read_to was read here; all below other_read_to
-- there, of what lies there alone all below other_alone_to, and of what no flow between the two has brought all below
-- others_read_to; null: the group was never there, and waits for none of that. is_rewound: it was put back behind where
-- the move had brought it, so what it had read there of both counts no more. is_capped: the commit was made on records
-- that the log has lost.
select
    g.group_id,
    p.here_topic as topic,
    p.here_partition as partition,
    g.committed_offset,
    g.absence,
    r.here_to as read_to,
    p.there_topic as other_topic,
    p.there_partition as other_partition,
    g.there_offset as other_committed_offset,
    g.left_offset,
    g.arrived_offset,
    r.there_to as other_read_to,
    r.alone_to as other_alone_to,
    r.others_to as others_read_to,
    r.is_rewound,
    r.is_capped
from answered_pairs as p
inner join params as a
    on a.from_cluster = p.here_cluster
    and a.to_cluster = p.there_cluster
inner join asked_groups as g using (pair_number)
inner join group_reads as r using (asked_number)
where coalesce(g.topic_id = p.here_topic_id, g.committed_offset is null)
order by
    group_id nulls last,
    topic nulls last,
    partition nulls last,
    other_topic nulls last
