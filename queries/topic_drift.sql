-- name:    topic_drift
-- answers: where do the settings of a flow's target topics differ from what they follow?
-- grain:   flow, source_topic, setting
-- reads:   followed_settings
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
select
    s.flow,
    s.source_topic,
    s.target_topic,
    s.setting,
    s.source_value,
    s.wanted_value,
    s.target_value,
    s.status
from followed_settings as s
inner join params as p on p.flow = s.flow
order by
    s.flow nulls last,
    s.source_topic nulls last,
    s.setting nulls last
