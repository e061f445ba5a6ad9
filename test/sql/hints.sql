-- The call that raises an error accepts each name or word that the hint of the error lists as
-- allowed.
SELECT taskq_create_queue('h', '{"retention": "1 h"}'), taskq_create_queue('h other');
SELECT taskq_submit('h') AS waiting, taskq_submit('h other') AS claimed \gset
SELECT token FROM taskq_claim('h other') \gset
SELECT count(*) FROM taskq_change('h', doc_adds => '[{"namespace": "h", "key": "k", "secondary_key": "s", "content": 1}]');
SELECT doc_id AS doc FROM taskq.doc WHERE namespace = 'h' \gset
-- what a call reports, without changing anything
CREATE FUNCTION t.answer(call text, OUT hint text, OUT problem text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    RAISE division_by_zero;
EXCEPTION
    WHEN division_by_zero THEN
        NULL;
    WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
        problem := SQLSTATE || ': ' || SQLERRM;
END
$$;
-- the words after "are" or "Allowed"
CREATE FUNCTION t.listed(hint text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_split_to_table(substring(hint FROM '^(?:Allowed|Options are): (.*)\.$'), ', ')
$$;
-- objects: %L is an object with the member; and the members that are refused without other members
CREATE TABLE t.objects (call text, needs jsonb);
INSERT INTO t.objects VALUES
    ('SELECT taskq_create_queue(''h new'', %L)', '{}'),
    ('SELECT taskq_alter_queue(''h'', %L)', '{}'),
    ('SELECT taskq_alter_queue(''*'', %L)', '{}'),
    ('SELECT taskq_submit(''h'', options => %L)', '{}'),
    (format('SELECT taskq_update_task(%s, jsonb_build_object(''options'', %%L::jsonb))', :waiting), '{}'),
    ('SELECT taskq_submit_tasks(jsonb_build_array(%L::jsonb))', '{}'),
    (format('SELECT taskq_update_task(%s, %%L)', :waiting), '{}'),
    ('SELECT taskq_decide_many(jsonb_build_array(%L::jsonb))', jsonb_build_object('task_id', :claimed, 'token', :token)),
    ('SELECT taskq_change(''h'', adds => jsonb_build_array(%L::jsonb))', '{"queue": "h"}'),
    ('SELECT taskq_change(''h'', updates => jsonb_build_array(%L::jsonb))', jsonb_build_object('task_id', :waiting)),
    ('SELECT taskq_change(''h'', deletes => jsonb_build_array(%L::jsonb))', jsonb_build_object('task_id', :waiting)),
    ('SELECT taskq_change(''h'', adds => ''[{"queue": "h"}]'', depends => jsonb_build_array(%L::jsonb))', jsonb_build_object('task_id', :waiting)),
    ('SELECT taskq_change(''h'', doc_adds => jsonb_build_array(%L::jsonb))', '{"namespace": "h", "key": "k2"}'),
    ('SELECT taskq_change(''h'', doc_updates => jsonb_build_array(%L::jsonb))', '{"namespace": "h", "key": "k", "secondary_key": "s"}'),
    ('SELECT taskq_change(''h'', doc_deletes => jsonb_build_array(%L::jsonb))', '{"namespace": "h", "key": "k", "secondary_key": "s"}'),
    ('SELECT taskq_change(''h'', doc_updates => jsonb_build_array(%L::jsonb))', jsonb_build_object('doc_id', :doc)),
    ('SELECT taskq_change(''h'', doc_deletes => jsonb_build_array(%L::jsonb))', jsonb_build_object('doc_id', :doc));
-- a value of each member; and the other members that the object must then have
CREATE TABLE t.members (name text, value jsonb, more jsonb DEFAULT '{}');
INSERT INTO t.members (name, value)
SELECT m.key, m.value FROM jsonb_each(jsonb_build_object('task_id', :waiting, 'version', 1, 'doc_id', :doc, 'token', :token)
    || '{"queue": "h", "payload": {}, "priority": 1, "run_at": "tomorrow", "delay": "1 h", "deadline": "tomorrow", "max_attempts": 5, "tags": ["a"],
         "key": "k", "reference": "r", "on_conflict": "return", "headers": {}, "correlation_id": "c", "data": "00", "insertion": "append",
         "suspended": true, "options": {"lease": "1 min"}, "lease": "1 min", "skip_existing": true, "namespace": "h", "secondary_key": "s",
         "content": 2, "retry": "linear", "retry_base": "1 s", "retry_cap": "1 min", "retry_list": ["1 s"], "retry_jitter": 0.1,
         "time_limit": "1 min", "order": "lifo", "key_policy": "serial", "max_running": 1, "max_running_per_key": 1,
         "rate_limit": {"count": 1, "per": "1 s"}, "max_depth": 10, "max_payload": 1000, "retention": "1 h", "retention_dead": "1 d",
         "reference_window": "1 h", "on_worker_death": "hold", "dead_letter_queue": "h other", "notify": true, "history": "transitions",
         "claim_durability": "flushed", "expect_workers": false, "executor": {"workers": 1}, "redact": ["$.a"], "deadline_in": "1 h"}') m;
INSERT INTO t.members VALUES
    ('outcome', '"complete"', '{}'),
    ('result', '1', '{"outcome": "complete"}'),
    ('keep', 'true', '{"outcome": "complete"}'),
    ('error', '"e"', '{"outcome": "fail"}'),
    ('detail', '{}', '{"outcome": "fail", "error": "e"}'),
    ('retryable', 'false', '{"outcome": "fail", "error": "e"}'),
    ('retry_in', '"1 s"', '{"outcome": "fail", "error": "e"}'),
    ('reason', '"r"', '{"outcome": "suspend"}');
CREATE VIEW t.object_answers AS
SELECT o.call, n.name, m.name AS known, a.problem
  FROM t.objects o
 CROSS JOIN t.answer(format(o.call, o.needs || '{"no such": 1}')) h
  LEFT JOIN t.listed(h.hint) n (name) ON true
  LEFT JOIN t.members m USING (name)
  LEFT JOIN t.answer(format(o.call, CASE WHEN o.call LIKE '%decide_many%' THEN
                CASE WHEN n.name IN ('task_id', 'token') THEN '{"outcome": "complete"}' WHEN n.name = 'delay' THEN '{"outcome": "release"}' ELSE '{}' END::jsonb ELSE '{}' END
            || m.more || jsonb_build_object(m.name, m.value) || CASE WHEN n.name NOT IN ('namespace', 'key') THEN o.needs ELSE o.needs || jsonb_build_object(m.name, o.needs -> m.name) END)) a ON true;
SELECT regexp_replace(call, '\d+', 'N') AS call, count(name) AS members FROM t.object_answers GROUP BY call ORDER BY call COLLATE "C";
-- (a document is named by its id, or by its names)
SELECT regexp_replace(call, '\d+', 'N') AS call, name, coalesce(problem, 'no value for it here') AS problem FROM t.object_answers WHERE known IS NULL OR problem IS NOT NULL ORDER BY 1, 2;
-- words: %L is one
CREATE TABLE t.words (call text);
INSERT INTO t.words VALUES
    ('SELECT taskq_submit(''h'', reference => ''new'', on_conflict => %L)'),
    ('SELECT taskq_submit(''h'', key => ''new'', insertion => %L)'),
    ('SELECT taskq_claim(''h'', claim_order => %L)'),
    ('SELECT taskq_purge(''h'', ARRAY[%L])'),
    ('SELECT taskq_purge(''h'', reason => %L)'),
    ('SELECT taskq_retry_all(''h'', %L)'),
    ('SELECT taskq_retry_all(''h'', reason => %L)'),
    ('SELECT taskq_recreate_all(''h'', %L)'),
    ('SELECT taskq_reassign(''h'', %1$L, CASE WHEN %1$L IN (''suspended'', ''cancelled'') THEN ''pending'' ELSE ''suspended'' END, task_ids => ''{}'')'),
    ('SELECT taskq_reassign(''h'', CASE WHEN %1$L IN (''dead'', ''cancelled'') THEN ''pending'' ELSE ''dead'' END, %1$L, task_ids => ''{}'')'),
    ('SELECT taskq_manage_many(%L, ''{}'')'),
    ('SELECT taskq_list(''h'', %L)'),
    ('SELECT taskq_count(''h'', state => %L)'),
    ('SELECT taskq_count(''h'', %L)'),
    ('SELECT taskq_worst_outcome(ARRAY[%L])'),
    ('SELECT taskq_junction(''h'', ''{a}'', %L)'),
    ('SELECT taskq_grant(''h'', ''pg_monitor'', ARRAY[%L])'),
    ('SELECT taskq_revoke(''h'', ''pg_monitor'', ARRAY[%L])'),
    ('SELECT taskq_alter_queue(''h'', jsonb_build_object(''retry'', %L, ''retry_list'', jsonb_build_array(''1 s'')))'),
    ('SELECT taskq_alter_queue(''h'', jsonb_build_object(''order'', %L))'),
    ('SELECT taskq_alter_queue(''h'', jsonb_build_object(''key_policy'', %L))'),
    ('SELECT taskq_alter_queue(''h'', jsonb_build_object(''on_worker_death'', %L))'),
    ('SELECT taskq_alter_queue(''h'', jsonb_build_object(''history'', %L))');
SELECT w.call, string_agg(n.word || coalesce(' ' || a.problem, ''), ', ' ORDER BY n.ord) AS words
  FROM t.words w
 CROSS JOIN t.answer(format(w.call, 'no such')) h
  LEFT JOIN t.listed(h.hint) WITH ORDINALITY n (word, ord) ON true
  LEFT JOIN t.answer(format(w.call, n.word)) a ON true
 GROUP BY w.call ORDER BY w.call COLLATE "C";
SELECT taskq_drop_queue('h', true), taskq_drop_queue('h other', true);
SELECT taskq_change('h', doc_deletes => jsonb_build_array(:doc));
DROP VIEW t.object_answers;
DROP TABLE t.objects, t.members, t.words;
DROP FUNCTION t.answer(text), t.listed(text);
