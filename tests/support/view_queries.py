"""Queries of views that no query of the catalog reads: they are there for SQL of others, and have their own cases."""

from ledger.store.catalog import parse_query

CURRENT_MAPS = parse_query("""-- name:    current_maps
-- answers: from where to where do maps reach, in the target that they went to last?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   current_maps
-- columns: flow string, source_topic string, source_topic_id string, source_partition int, target_topic string,
--          target_topic_id string, source_start bigint, source_end bigint, target_end bigint
select
    flow, source_topic, source_topic_id, source_partition,
    target_topic, target_topic_id, source_start, source_end, target_end
from current_maps
order by flow, source_topic, source_topic_id, source_partition
""")

GROUP_MOVES = parse_query("""-- name:    group_moves
-- answers: which moves of groups are recorded?
-- grain:   operation_id, group_id, to_topic, to_partition, moved_at_ms, from_cluster, from_topic, from_partition
-- reads:   group_moves
-- columns: group_id string, from_cluster string, from_topic string, from_topic_id string, from_partition int,
--          left_offset bigint, left_leader_epoch int, left_made_after_ms bigint,
--          to_cluster string, to_topic string, to_topic_id string, to_partition int, arrived_offset bigint,
--          moved_at_ms bigint, operation_id string, kind string, move_order bigint, seen_order bigint
select *
from group_moves
order by operation_id, group_id, to_topic, to_partition, moved_at_ms, from_cluster, from_topic, from_partition
""")

DECIDED_EXTRAS = parse_query("""-- name:    decided_extras
-- answers: what was decided last about which extras?
-- grain:   cluster, topic, topic_id, partition, extra_start
-- reads:   decided_extras
-- columns: cluster string, topic string, topic_id string, partition int, extra_start bigint, extra_end bigint,
--          policy string
select *
from decided_extras
order by cluster, topic, topic_id, partition, extra_start
""")

COMMITTED_TOPICS = parse_query("""-- name:    committed_topics
-- answers: which groups have committed themselves on which topics?
-- grain:   cluster, topic, group_id
-- reads:   committed_topics
-- columns: cluster string, topic string, group_id string, is_present int
select *
from committed_topics
order by cluster, topic, group_id
""")

VIEW_QUERIES = (CURRENT_MAPS, GROUP_MOVES, DECIDED_EXTRAS, COMMITTED_TOPICS)
