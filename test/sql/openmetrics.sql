--
-- openmetrics: the metrics as text, in both formats
--
SELECT taskq_create_queue('o plain', '{"retry_base": "0 s"}'), taskq_create_queue('o "quoted\ü"'), taskq_create_queue('o empty');
CALL t.until($$SELECT count(*) = 3 FROM taskq.metrics WHERE name = 'tasks.dead' AND queue LIKE 'o %'$$);
SELECT count(*) FROM taskq_submit_many('o plain', ARRAY['1', '2', '3']::jsonb[]);
SELECT taskq_complete(task_id, token) FROM taskq_claim('o plain');
SELECT taskq_fail(task_id, token, 'e') FROM taskq_claim('o plain');
SELECT count(taskq_submit('o "quoted\ü"'));
-- the lines of a queue, except those of histograms and ages
SELECT line FROM regexp_split_to_table(taskq_openmetrics(), '\n') line WHERE line ~ '"o (plain|.*ü)' AND line !~ '_seconds' ORDER BY line COLLATE "C";
-- a queue without tasks has all of them, with 0
SELECT count(*) AS lines, count(*) FILTER (WHERE line ~ ' 0$') AS zero FROM regexp_split_to_table(taskq_openmetrics(), '\n') line WHERE line ~ '"o empty"';
-- a histogram: bounds, cumulative counts, number and sum
SELECT regexp_replace(line, ' \S+$', '') AS bucket FROM regexp_split_to_table(taskq_openmetrics(), '\n') line WHERE line ~ '^taskq_tasks_queue_wait_seconds_bucket.*"o empty"';
SELECT line FROM regexp_split_to_table(taskq_openmetrics(), '\n') line WHERE line ~ '"o plain"' AND line ~ '(_count|le="\+Inf")';
-- the lines about metrics, and of no queue
SELECT line FROM regexp_split_to_table(taskq_openmetrics(), '\n') line WHERE line ~ '^#' OR line = '';
SELECT regexp_replace(line, ' [0-9.e-]+$', '') AS line FROM regexp_split_to_table(taskq_openmetrics(), '\n') line WHERE line !~ '^#' AND line !~ 'queue="[^"]' AND line <> '';
SELECT line FROM regexp_split_to_table(taskq_openmetrics('prometheus'), '\n') line WHERE line ~ '^# ' AND line !~ '^# HELP';
-- both have the same samples
SELECT count(*) FILTER (WHERE o IS DISTINCT FROM p) AS different, count(*) > 200 AS many
  FROM (SELECT row_number() OVER () AS n, l AS o FROM regexp_split_to_table(taskq_openmetrics('openmetrics'), '\n') l WHERE l !~ '^#' AND l !~ '(age|running)_seconds|dead_share') o
  FULL JOIN (SELECT row_number() OVER () AS n, l AS p FROM regexp_split_to_table(taskq_openmetrics('prometheus'), '\n') l WHERE l !~ '^#' AND l !~ '(age|running)_seconds|dead_share') p USING (n);
-- they are those of the view
CREATE VIEW t.sample AS
SELECT m[1] AS name, m[3] AS labels, m[4]::float8 AS value
  FROM regexp_split_to_table(taskq_openmetrics(), '\n') line, regexp_match(line, '^(taskq_\w+)(\{(.*)\})? (\S+)$') m
 WHERE m IS NOT NULL;
CREATE VIEW t.expected AS
SELECT 'taskq_' || replace(m.name, '.', '_') || CASE WHEN m.name ~ '(age|running|time)$' THEN '_seconds' WHEN m.name ~ '(share|used)$' THEN '_ratio' WHEN kind = 'counter' THEN '_total' ELSE '' END AS name,
       concat_ws(',', 'queue="' || replace(replace(coalesce(m.queue, CASE WHEN m.name ~ '^workers\.' THEN '' END), '\', '\\'), '"', '\"') || '"', (SELECT format('%s="%s"', key, value) FROM jsonb_each_text(m.labels) WHERE m.name !~ 'snapshot')) AS labels,
       m.value
  FROM taskq.metrics m WHERE kind <> 'histogram'
 UNION ALL
SELECT 'taskq_' || replace(m.name, '.', '_') || '_seconds' || s.suffix, 'queue="' || replace(replace(m.queue, '\', '\\'), '"', '\"') || '"' || s.le, s.value
  FROM taskq.metrics m,
       LATERAL (SELECT '_bucket', ',le="' || CASE WHEN b = 'Infinity' THEN '+Inf' WHEN b = trunc(b) THEN b || '.0' ELSE b::text END || '"', n::float8 FROM unnest(bucket_bounds, bucket_counts) u (b, n)
                UNION ALL SELECT '_sum', '', sum UNION ALL SELECT '_count', '', count) s (suffix, le, value)
 WHERE kind = 'histogram';
SELECT * FROM t.expected e FULL JOIN t.sample s ON e.name = s.name AND e.labels = coalesce(s.labels, '')
 WHERE s.value IS DISTINCT FROM e.value AND NOT (s.name ~ '(age|running)_seconds|dead_share' AND e.name IS NOT NULL) OR s.name IS NULL;
SELECT count(*) > 200 AS many FROM t.expected;
DROP VIEW t.expected, t.sample;
-- it reads all queues at once: claims of the session then find the lanes and options of each
SELECT taskq_create_queue('o tags 1'), taskq_create_queue('o tags 2', '{"lease": "1 h"}'), taskq_create_queue('o tags 3');
SELECT count(taskq_submit(q, tags => t::text[])) FROM unnest(ARRAY['o tags 1', 'o tags 2']) q, unnest(ARRAY['{}', '{a}', '{b}', '{a,b}']) t;
SELECT count(taskq_submit('o tags 3', tags => '{c}'));
\c -
SELECT taskq_openmetrics() ~ 'taskq_tasks_depth\{queue="o tags 2",state="pending"\} 4' AS pending;
SELECT queue, tags, lease_until - now() > '50 min' AS an_hour FROM unnest(ARRAY['o tags 1', 'o tags 2', 'o tags 3']) q, LATERAL taskq_claim(q, tags => '{a}', max_tasks => 9) ORDER BY 1, 2;
SELECT count(*) FROM taskq_claim('o tags 3', tags => '{c}');
SELECT taskq_drop_queue('o tags ' || n, true) > 0 AS removed FROM generate_series(1, 3) n;
-- errors
SELECT t.try($$SELECT taskq_openmetrics('json')$$), t.try($$SELECT taskq_openmetrics('')$$);
SELECT taskq_openmetrics(NULL) ~ '# EOF\n$' AS default, taskq_openmetrics('prometheus') ~ '# EOF' AS of_prometheus;
-- which role may call it
CREATE ROLE regress_taskq_openmetrics;
SET ROLE regress_taskq_openmetrics; SELECT t.try('SELECT taskq_openmetrics()'); RESET ROLE;
SELECT taskq_grant('o plain', 'regress_taskq_openmetrics', '{read}');
SET ROLE regress_taskq_openmetrics; SELECT t.try('SELECT taskq_openmetrics()'); RESET ROLE;
SELECT taskq_grant('*', 'regress_taskq_openmetrics', '{submit,work,manage}');
SET ROLE regress_taskq_openmetrics; SELECT t.try('SELECT taskq_openmetrics()'); RESET ROLE;
SELECT taskq_grant('*', 'regress_taskq_openmetrics', '{observe}');
SET ROLE regress_taskq_openmetrics; SELECT length(taskq_openmetrics()) > 1000 AS reads; RESET ROLE;
SELECT taskq_revoke('*', 'regress_taskq_openmetrics', '{submit,work,manage,observe}'), taskq_revoke('o plain', 'regress_taskq_openmetrics', '{read}');
GRANT pg_monitor TO regress_taskq_openmetrics;
SET ROLE regress_taskq_openmetrics; SELECT length(taskq_openmetrics()) > 1000 AS reads; RESET ROLE;
DROP ROLE regress_taskq_openmetrics;
SELECT taskq_drop_queue(q, true) > 0 AS removed FROM unnest(ARRAY['o plain', 'o "quoted\ü"', 'o empty']) q ORDER BY 1;
SELECT taskq_openmetrics() ~ '"o ' AS still_there;
