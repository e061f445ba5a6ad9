-- Lists have at most 1,000,000 entries: checked before memory is allocated for
-- each of them.
\set VERBOSITY default
CREATE SCHEMA long_list;
CREATE FUNCTION long_list.told(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text;
    message text;
    detail text;
    hint text;
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', state, message, detail, hint);
END
$$;
CREATE TABLE long_list.list AS
SELECT array_fill(1::bigint, ARRAY[1000001]) AS ids, array_fill('done'::text, ARRAY[1000001]) AS words,
       array_fill('1'::jsonb, ARRAY[1000001]) AS documents, to_jsonb(array_fill(1, ARRAY[1000001])) AS entries;
SELECT taskq_create_queue('long list');
SELECT call, long_list.told(format('SELECT FROM long_list.list CROSS JOIN LATERAL %s', call))
  FROM unnest(ARRAY[
    'taskq_get_many(ids)',
    'taskq_complete_many(ids, ids)',
    'taskq_complete_many(ids[1:2], ids)',
    'taskq_complete_many(ids[1:2], ids[1:2], documents)',
    'taskq_complete_and_claim(ids, ids)',
    'taskq_extend_many(ids, ids)',
    'taskq_decide_many(entries)',
    'taskq_manage_many(''retry'', ids)',
    'taskq_reassign(''long list'', ''dead'', ''pending'', task_ids => ids)',
    'taskq_purge(''long list'', words)',
    'taskq_submit(''long list'', tags => words)',
    'taskq_submit_many(''long list'', documents)',
    'taskq_submit_tasks(entries)',
    'taskq_register(''long list'', queues => words)',
    'taskq_grant(''long list'', current_user::text, words)',
    'taskq_change(''long list'', entries)',
    'taskq_change(''long list'', ''[]'', deletes => entries)',
    'taskq_claim_one(''long list'', words, ''1 min'')']) AS call;
-- lists of exactly that length are accepted
SELECT taskq_worst_outcome(array_fill('complete'::text, ARRAY[1000000])) IS NOT NULL AS accepted;
DROP SCHEMA long_list CASCADE;
SELECT taskq_drop_queue('long list');
