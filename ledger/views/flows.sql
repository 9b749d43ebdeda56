-- What writers said of flows: where they go, what they relay, whom a claim shut out.

-- Which clusters each flow goes between, by its last claim.
create or replace temporary view last_claims as
with claims as (
    select
        flow,
        source_cluster,
        target_cluster,
        row_number() over (partition by flow order by writer_epoch desc nulls last) as age
    from writers
    where event = 'claimed' and flow is not null
)

select flow, source_cluster, target_cluster
from claims
where age = 1;

-- Of the configuration that flows recorded last whether they copy also what flows wrote, and which flow goes the other way
-- (empty: none).
create or replace temporary view last_configurations as
with configurations as (
    select
        flow,
        coalesce(text_of(content, 'configuration.relay'), 'false') as relay,
        coalesce(text_of(content, 'configuration.opposite'), '') as opposite,
        writer_epoch * 4294967296 + round as recorded_order
    from operations
    where kind = 'configuration_changed' and is_json(content)
)

select flow, max_by(relay, recorded_order) as relay, max_by(opposite, recorded_order) as opposite
from configurations
group by flow;

-- Where each table stood, by its last (epoch, round) of the writer, when a claim shut earlier epochs out of it.
create or replace temporary view shut_outs as
with entries as (
    select writer, writer_epoch as claimed_epoch, explode(shut_out) as entry
    from writers
    where event = 'claimed'
)

select
    writer,
    claimed_epoch,
    entry.fact_table as fact_table,
    entry.writer_epoch * 4294967296 + entry.round as last_order
from entries;
