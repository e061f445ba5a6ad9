-- Documents that tasks share: changed with tasks, claimed by key.
SELECT taskq_create_queue('docs');
CREATE TEMP TABLE d (name text PRIMARY KEY, id bigint);
CREATE FUNCTION pg_temp.note() RETURNS void LANGUAGE sql AS $$
INSERT INTO d SELECT key || secondary_key, doc_id FROM taskq.doc ON CONFLICT (name) DO UPDATE SET id = excluded.id $$;
-- ids as names
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    more text;
    place text;
    hint text;
    r record;
BEGIN
    PERFORM pg_temp.note();
    FOR r IN SELECT * FROM d LOOP
        statement := replace(statement, '<' || r.name || '>', r.id::text);
    END LOOP;
    BEGIN
        EXECUTE statement;
        RETURN 'ok';
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS more = PG_EXCEPTION_DETAIL, place = PG_EXCEPTION_CONTEXT, hint = PG_EXCEPTION_HINT;
        answer := concat_ws(' ', SQLSTATE || ':', SQLERRM, nullif(more, ''), '(' || substring(place FROM 'entry [a-z_]+\[[0-9]+\]') || ')',
                            CASE WHEN SQLSTATE <> 'TQ010' THEN nullif(hint, '') END);
    END;
    FOR r IN SELECT * FROM d ORDER BY id DESC LOOP
        answer := regexp_replace(answer, '\m' || r.id || '\M', r.name, 'g');
    END LOOP;
    RETURN regexp_replace(answer, '\d{4}-\d\d-\d\dT[0-9:.+-]+', 'then', 'g');
END $$;
CREATE VIEW pg_temp.seen AS
SELECT namespace, key, secondary_key AS second, version, content, worker, lease_until > now() AS held FROM taskq.documents ORDER BY 1, 2, 3;

-- Added together with a task; identified by names or by id.
SELECT payload FROM taskq_change('me', '[{"queue": "docs", "payload": "t"}]',
    doc_adds => '[{"namespace": "docs", "key": "k", "content": {"n": 1}},
                  {"namespace": "docs", "key": "k", "secondary_key": "b", "lease": "1 min"},
                  {"namespace": "free", "key": "leader", "content": null}]');
SELECT * FROM pg_temp.seen;
SELECT count(*) FROM taskq_change('me', doc_updates => '[{"namespace": "docs", "key": "k", "version": 1, "content": [2]}]');
SELECT pg_temp.try('SELECT * FROM taskq_change(''me'', doc_updates => ''[{"doc_id": <kb>, "content": "by id", "lease": "5 min"}, {"doc_id": <k>}]'')');
SELECT * FROM pg_temp.seen;
-- null empties it, a missing member leaves it
SELECT count(*) FROM taskq_change('me', doc_updates => '[{"namespace": "docs", "key": "k", "content": null}, {"namespace": "docs", "key": "k", "secondary_key": "b", "lease": "1 h"}]');
SELECT * FROM pg_temp.seen;

-- One error reports every problem of tasks and documents, and nothing is changed.
SELECT pg_temp.try($$SELECT * FROM taskq_change('you', '[{"queue": "docs", "reference": "r"}, {"queue": "docs", "reference": "r"}]', deletes => '[-1]',
    doc_adds => '[{"namespace": "docs", "key": "k"}, {"namespace": "x", "key": "y"}, {"namespace": "x", "key": "y"}]',
    doc_updates => '[{"doc_id": <kb>}, {"doc_id": -5}, {"namespace": "no", "key": "such \" one"}]',
    doc_deletes => '[{"doc_id": <leader>, "version": 9}, -6]',
    doc_depends => '[{"namespace": "docs", "key": "k", "version": 1}, <k>]')$$);
SELECT pg_temp.try($$SELECT * FROM taskq_change('you', doc_depends => '[<k>]')$$);
SELECT pg_temp.try($$SELECT * FROM taskq_change('you', doc_deletes => '[<k>, {"namespace": "docs", "key": "k"}]')$$);
SELECT count(*) FROM taskq.doc;
-- other tasks may depend on a document that a worker holds, and change it when its lease has ended
SELECT pg_temp.try($$SELECT * FROM taskq_change('you', '[{"queue": "docs"}]', doc_depends => '[<kb>]')$$);
UPDATE taskq.doc SET lease_until = now() - interval '1 s' WHERE secondary_key = 'b';
SELECT pg_temp.try($$SELECT * FROM taskq_change('you', doc_updates => '[{"doc_id": <kb>, "lease": "1 min"}]')$$);
SELECT * FROM pg_temp.seen;
-- a document is deleted, and another one of the same name is added
SELECT pg_temp.try($$SELECT * FROM taskq_change('me', doc_deletes => '[{"namespace": "free", "key": "leader"}]', doc_adds => '[{"namespace": "free", "key": "leader", "content": 2}]')$$);
SELECT pg_temp.try($$SELECT * FROM taskq_change('me', doc_adds => '[{"namespace": "free", "key": "leader", "content": 3, "skip_existing": true}]')$$);
SELECT pg_temp.try($$SELECT * FROM taskq_change('me', doc_adds => '[{"namespace": "free", "key": "leader", "content": 3}]')$$);
SELECT version, content FROM pg_temp.seen WHERE key = 'leader';

-- All of a key, or nothing.
SELECT pg_temp.try($$SELECT * FROM taskq_claim_docs('me', 'docs', 'k', '1 min')$$);
SELECT secondary_key, version, content, worker, lease_until > now() + interval '50 s' AS held FROM taskq_claim_docs('you', 'docs', 'k', '1 min');
SELECT secondary_key, version, worker, lease_until > now() + interval '50 min' AS held FROM taskq_claim_docs('you', 'docs', 'k', '1 h');
SELECT pg_temp.try($$SELECT * FROM taskq_change('me', doc_deletes => '[<k>]')$$);
SELECT pg_temp.try($$SELECT * FROM taskq_claim_docs('me', 'docs', 'k', '0')$$);
SELECT secondary_key, version, worker, lease_until FROM taskq_claim_docs('you', 'docs', 'k', '0');
SELECT secondary_key, version, worker, lease_until FROM taskq_claim_docs('me', 'docs', 'k', '0');
SELECT count(*) FROM taskq_claim_docs('me', 'docs', 'none', '1 s');
BEGIN;
SELECT count(*) FROM taskq_claim_docs('me', 'docs', 'k', '1 s');
ROLLBACK;
SELECT * FROM pg_temp.seen;

-- Invalid calls.
SELECT c, pg_temp.try(format('SELECT * FROM taskq_change(''w'', %s)', c))
  FROM unnest(ARRAY['doc_adds => ''{}''', 'doc_adds => ''[7]''', 'doc_adds => ''[{"namespace": "n"}]''', 'doc_adds => ''[{"key": "n"}]''', 'doc_adds => ''[{"namespace": "", "key": "k"}]''',
                    'doc_adds => ''[{"namespace": "n", "key": 5}]''', 'doc_adds => ''[{"namespace": "n", "key": "k", "version": 1}]''', 'doc_adds => ''[{"namespace": "n", "key": "k", "doc_id": 1}]''',
                    'doc_adds => ''[{"namespace": "n", "key": "k", "lease": "-1 s"}]''', 'doc_adds => ''[{"namespace": "n", "key": "k", "lease": 1}]''',
                    'doc_adds => ''[{"namespace": "n", "key": "k", "skip_existing": 1}]''', 'doc_adds => ''[{"namespace": "n", "key": "k", "colour": 1}]''',
                    'doc_updates => ''[7]''', 'doc_updates => ''[{}]''', 'doc_updates => ''[{"doc_id": 1, "key": "k"}]''', 'doc_updates => ''[{"doc_id": "1"}]''',
                    'doc_updates => ''[{"doc_id": 1, "skip_existing": true}]''', 'doc_deletes => ''["x"]''', 'doc_deletes => ''[{"doc_id": 1, "content": 2}]''', 'doc_depends => ''[null]''']) c;
SELECT c, pg_temp.try(format('SELECT * FROM taskq_claim_docs(%s)', c))
  FROM unnest(ARRAY['NULL, ''n'', ''k'', ''1 s''', '''w'', NULL, ''k'', ''1 s''', '''w'', ''n'', NULL, ''1 s''', '''w'', ''n'', ''k'', NULL', '''w'', ''n'', ''k'', ''-1 s''', ''''', ''n'', ''k'', ''1 s''',
                    '''w'', '''', ''k'', ''1 s''', '''w'', ''n'', '''', ''1 s''']) c;
SELECT pg_temp.try($$SELECT * FROM taskq_change('me', doc_adds => jsonb_build_array(jsonb_build_object('namespace', repeat('n', 201), 'key', 'k')))$$);
SELECT pg_temp.try($$SELECT * FROM taskq_change('me', doc_adds => jsonb_build_array(jsonb_build_object('namespace', 'n', 'key', 'k', 'content', repeat('n', 2000000))))$$);
BEGIN READ ONLY;
SELECT * FROM taskq_claim_docs('me', 'docs', 'k', '1 s');
ROLLBACK;

-- Rights: the rights on the queue of that name, otherwise the rights on all queues.
CREATE ROLE docs_worker;
CREATE ROLE docs_reader;
CREATE ROLE docs_other;
SELECT taskq_grant('docs', 'docs_worker', '{work}'), taskq_grant('docs', 'docs_reader', '{read}');
SELECT taskq_create_queue('elsewhere'), taskq_grant('elsewhere', 'docs_other', '{submit,work,read,manage}');
GRANT SELECT, INSERT, UPDATE ON d TO docs_worker, docs_reader, docs_other;
SELECT id AS k FROM d WHERE name = 'k' \gset
SELECT id AS leader FROM d WHERE name = 'leader' \gset
\set VERBOSITY terse
SET ROLE docs_worker;
SELECT count(*) FROM taskq.documents;
SELECT secondary_key FROM taskq_claim_docs('w', 'docs', 'k', '0');
SELECT count(*) FROM taskq_change('w', doc_depends => jsonb_build_array(:k), doc_adds => '[{"namespace": "docs", "key": "mine"}]');
SELECT * FROM taskq_claim_docs('w', 'free', 'leader', '0');
SELECT * FROM taskq_change('w', doc_adds => '[{"namespace": "free", "key": "mine"}]');
SELECT * FROM taskq_change('w', doc_deletes => jsonb_build_array(:leader)) \g (tuples_only)
SET ROLE docs_reader;
SELECT namespace, key FROM pg_temp.seen;
SELECT namespace, key, content FROM taskq.documents ORDER BY 1, 2, secondary_key;
SELECT * FROM taskq_claim_docs('w', 'docs', 'k', '0');
SET ROLE docs_other;
SELECT namespace, key FROM taskq.documents;
SELECT * FROM taskq_claim_docs('w', 'docs', 'k', '0');
SELECT * FROM taskq_change('w', doc_deletes => jsonb_build_array(:k)) \g (tuples_only)
SELECT * FROM taskq.doc;
RESET ROLE;
\set VERBOSITY default

-- The dump includes it.
SELECT bool_and(c.oid = ANY (e.extconfig)) FROM pg_extension e, pg_class c WHERE e.extname = 'taskq' AND c.oid = 'taskq.doc'::regclass;
SELECT * FROM taskq_check();
SELECT taskq_revoke('docs', 'docs_worker', '{work}'), taskq_revoke('docs', 'docs_reader', '{read}'), taskq_revoke('elsewhere', 'docs_other', '{submit,work,read,manage}');
DROP OWNED BY docs_worker, docs_reader, docs_other;
DROP ROLE docs_worker, docs_reader, docs_other;
SELECT taskq_drop_queue('docs', true), taskq_drop_queue('elsewhere', true);
DELETE FROM taskq.doc;
