-- Offset syncs as spans of one row each, by the hour in which they were recorded.
select
    *,
    recorded_at_ms // 3600000 as hour,
    round as first_round,
    recorded_at_ms as first_recorded_at_ms,
    target_start as span_target_start,
    cast(1 as bigint) as rows,
    not has_gaps(gaps) as is_exact
from facts
