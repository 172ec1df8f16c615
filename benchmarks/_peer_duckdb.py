"""The contract in DuckDB: SQL over lists, the spans unnested and joined with the file of sequences.

Each query counts the rows that break its rules: a row a datum, a span with the record that it names, a
sampled position, a record. Spans are held against records as slices of lists, which are numbered from 1.
"""

from __future__ import annotations

from datetime import datetime

import duckdb

#: Both files, each read once: what several queries need of them is kept in tables.
TABLES = """
create temp table datums as
    select file_row_number as "row", columns(* exclude (file_row_number))
    from read_parquet($data, file_row_number = true);

create temp table records as select * from read_parquet($sequences);

create temp table spans as
    with listed as (
        select "row", true as input, unnest(model_input_spans) as span,
            generate_subscripts(model_input_spans, 1) as number
        from datums
        union all
        select "row", false, unnest(loss_fn_input_spans), generate_subscripts(loss_fn_input_spans, 1)
        from datums
    )
    select "row", input, number, span.type as type, span.sequence_id as sequence_id,
        span.offset as "offset", span.length as length, type = 'sampled' as sampled,
        (sum(length) over (partition by "row", input order by number) - length)::bigint as start,
        lag({'type': type, 'sequence_id': sequence_id, 'next': "offset" + length})
            over (partition by "row", input order by number) as before
    from listed
"""

DATUM = """
select
    count_if(target_tokens is null or logprobs is null or advantages is null) as INP001,
    count_if(len(target_tokens) <> n or len(logprobs) <> n or len(advantages) <> n) as INP005,
    count_if(len(list_filter(model_input_tokens, lambda t: t is null or t < 0)) > 0
        or len(list_filter(target_tokens, lambda t: t is null or t not between 0 and 2147483647)) > 0
    ) as TOK001,
    count_if(len(list_filter(logprobs, lambda x: x is null or not isfinite(x))) > 0
        or len(list_filter(advantages, lambda x: x is null or not isfinite(x))) > 0) as VAL001,
    count_if(list_max(logprobs) > 1e-4) as VAL002,
    count_if(list_max(advantages) > 100 or list_min(advantages) < -100) as ADV004,
    bool_and(list_max(advantages) = 0 and list_min(advantages) = 0)::int as ADV003,
    count_if((inputs is null) <> (targets is null)) as SPN001,
    count_if(inputs is null and targets is null) as SPN002,
    count_if(list_sum(list_transform(inputs, lambda s: s.length)) <> n) as SPN003,
    count_if(list_sum(list_transform(targets, lambda s: s.length)) <> len(target_tokens)) as SPN004,
    count_if(len(list_filter(targets, lambda s: s.type = 'sampled' and s.length > 0)) = 0) as SPN007
from (
    select *, len(model_input_tokens) as n, model_input_spans as inputs, loss_fn_input_spans as targets
    from datums
)
"""

SPAN = """
select
    count_if(type not in ('prompt', 'sampled') or sequence_id = '' or "offset" < 0 or length < 0) as SPN005,
    count_if(length = 0) as SPN006,
    count_if(before.type = type and before.sequence_id = sequence_id and before.next <> "offset") as SPN010,
    count_if(sampled and session_id is null) as SEQ001,
    count_if(not sampled and session_id is null) as SEQ013,
    count_if("offset" + length > len(if(sampled, tokens, prompt_tokens))) as SEQ002
from spans left join records using (sequence_id)
"""

INPUT = """
select
    count_if(model_input_tokens[start + 1 : start + length]
        <> if(sampled, tokens, prompt_tokens)["offset" + 1 : "offset" + length]) as SEQ003
from spans join datums using ("row") join records using (sequence_id)
where input
"""

#: Where the slices are not kept they are cut anew for each rule, which takes twice the time.
TARGET = """
with sliced as materialized (
    select sampled, "offset", length, session_id, sampled_at, record_stability_info, prompt_tokens,
        temperature, top_p, top_k, len(tokens) as whole, $now - greatest(sampled_at, last_used_at) as age,
        model_input_tokens[: start + 1] as context,
        model_input_tokens[start + 2 : start + length + 1] as next_inputs,
        target_tokens[start + 1 : start + length] as targets,
        if(sampled, tokens["offset" + 1 : "offset" + length],
            prompt_tokens["offset" + 1 : "offset" + length]) as claimed,
        advantages[start + 1 : start + length] as signal,
        datums.logprobs[start + 1 : start + length] as given,
        records.logprobs["offset" + 1 : "offset" + length] as said
    from spans join datums using ("row") join records using (sequence_id)
    where not input
), held as (
    select *, targets <> claimed as other, list_min(signal) <> 0 or list_max(signal) <> 0 as rewarded
    from sliced
)
select
    count_if(sampled and ("offset" <> 0 or length <> whole)) as SPN008,
    count_if(sampled and other) as SEQ004,
    count_if(not sampled and other) as SEQ005,
    count_if(sampled and (temperature <> 1 or top_p <> 1 or top_k not in (0, -1))) as SEQ009,
    count_if(sampled and "offset" = 0 and context <> prompt_tokens) as SEQ011,
    count_if(sampled and targets[: len(next_inputs)] <> next_inputs) as TOK005,
    count_if(sampled and length >= 32 and list_min(given) = 0 and list_max(given) = 0
        and list_min(said) <> 0) as VAL003,
    count_if(not sampled and rewarded) as ADV001,
    count_if(sampled and rewarded and not record_stability_info) as ADV002,
    count_if(sampled and rewarded and (signal[1] = 0 or signal[-1] = 0)) as ADV005,
    count_if(sampled and session_id <> $session) as SES001,
    count_if(sampled and age > interval 24 hours) as SES002,
    count_if(sampled and age between interval 23 hours and interval 24 hours) as SES003,
    count_if(sampled and sampled_at > $now + interval 5 minutes) as SES004
from held
"""

LOGPROB = """
with compared as (
    select "row", start,
        unnest(datums.logprobs[start + 1 : start + length]) as given,
        unnest(records.logprobs["offset" + 1 : "offset" + length]) as said
    from spans join datums using ("row") join records using (sequence_id)
    where not input and sampled and len(records.logprobs) = len(tokens)
), of_span as (
    select count_if(abs(given - said) > 1e-3 + 0.0078125 * greatest(abs(given), abs(said))) as differ,
        count(*) >= 4 and avg(abs(given - said)) > 0.5 as is_foreign
    from compared group by "row", start
)
select sum(differ)::bigint as SEQ006, count_if(is_foreign) as SEQ012 from of_span
"""

RECORD = """
select count_if(len(logprobs) <> len(tokens)
    or len(list_filter(logprobs, lambda x: x is null or not isfinite(x) or x > 1e-4)) > 0) as SEQ007
from records
"""

CONFLICT = """
with repeated as (
    select session_id, sequence_id from records group by all having count(*) > 1
)
select count(*) as SEQ008 from (
    select session_id, sequence_id from repeated join records using (session_id, sequence_id)
    group by all having count(distinct (prompt_tokens, tokens, logprobs)) > 1
)
"""

REPEATED = """
select count(*) as SEQ010 from (
    select sequence_id from spans where not input and sampled and length > 0
    group by all having count(distinct "row") > 1
)
"""

#: An input span and the target span one position before it, at different places of one source.
MISALIGNED = """
select count(*) as SPN009
from spans as i join spans as t using ("row", type, sequence_id)
where i.input and not t.input
    and t.start < i.start - 1 + i.length and i.start - 1 < t.start + t.length
    and t."offset" - t.start <> i."offset" - i.start + 1
"""

QUERIES = (DATUM, SPAN, INPUT, TARGET, LOGPROB, RECORD, CONFLICT, REPEATED, MISALIGNED)
COLUMNS = {
    "row",
    "model_input_tokens",
    "target_tokens",
    "logprobs",
    "advantages",
    "model_input_spans",
    "loss_fn_input_spans",
}


def check(data: str, sequences: str, session: str, now: datetime) -> dict[str, int]:
    """How often each rule is broken that SQL can state."""
    given = {"data": data, "sequences": sequences, "session": session, "now": now}
    with duckdb.connect() as db:
        for statement in db.extract_statements(TABLES):
            db.execute(statement, {name: given[name] for name in statement.named_parameters})
        found = {"INP002": len(set(db.table("datums").columns) - COLUMNS)}
        for query in QUERIES:
            wanted = {name: given[name] for name in ("session", "now") if f"${name}" in query}
            answer = db.execute(query, wanted)
            names = [column[0] for column in answer.description or ()]
            row = answer.fetchone() or ()
            found |= {name: int(count or 0) for name, count in zip(names, row, strict=True)}
    return found
