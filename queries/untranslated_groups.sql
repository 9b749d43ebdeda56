-- name:    untranslated_groups
-- answers: which groups of a flow's source have no translation, or one that may be out of date, whatever they committed?
-- grain:   flow, group_id
-- reads:   last_claims, last_groups
-- params:  flow string
-- columns: flow string, group_id string, group_type string, has_members boolean, since_ms bigint, reason string,
--          status string
-- status:  hidden, unavailable, share_group
--
-- Beside offset_translation, which has a row for every commit. share_group: it commits no offsets, brokers keep
-- share-partition start offsets for it. hidden: the mirror's principal may not describe it. unavailable: its coordinator
-- did not answer for it. Of the last two the commits that are translated, if any, are those known before since_ms.
select
    f.flow,
    g.group_id,
    g.group_type,
    g.has_members,
    g.read_at_ms as since_ms,
    g.reason,
    case when g.event = 'present' then 'share_group' else g.event end as status
from last_groups as g
inner join last_claims as f on f.source_cluster = g.cluster
inner join params as p on p.flow = f.flow
where g.event in ('hidden', 'unavailable') or (g.event = 'present' and g.group_type = 'share')
order by f.flow nulls last, g.group_id nulls last
