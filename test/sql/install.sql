--
-- install: the extension is created, reports its version, is dropped and created again
--
CREATE EXTENSION taskq;
SELECT taskq_version();
-- functions are in the given schema, everything else in taskq
SELECT n.nspname, e.extrelocatable
  FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
 WHERE e.extname = 'taskq';
SELECT e.extversion = taskq_version() AS same_version
  FROM pg_extension e WHERE e.extname = 'taskq';
-- the schema belongs to the extension
SELECT count(*)
  FROM pg_depend d
 WHERE d.classid = 'pg_namespace'::regclass
   AND d.objid = 'taskq'::regnamespace
   AND d.refclassid = 'pg_extension'::regclass
   AND d.deptype = 'e';
-- the check finds no problem, and there are no tasks, queues or workers
SELECT * FROM taskq_check();
SELECT count(*) FROM taskq.tasks;
SELECT count(*) FROM taskq.queues;
SELECT count(*) FROM taskq.workers;
-- no function is STRICT, none is overloaded, none is SECURITY DEFINER
SELECT p.proname
  FROM pg_proc p
 WHERE p.proname LIKE 'taskq\_%'
   AND p.pronamespace = current_schema()::regnamespace
   AND (p.proisstrict OR p.prosecdef OR p.proconfig IS NOT NULL);
SELECT p.proname, count(*)
  FROM pg_proc p
 WHERE p.proname LIKE 'taskq\_%'
 GROUP BY p.proname
HAVING count(*) > 1;
-- no parameter or column is a reserved word
SELECT p.proname, a.name
  FROM pg_proc p, unnest(p.proargnames) a (name), pg_get_keywords() k
 WHERE p.proname LIKE 'taskq\_%' AND k.word = a.name AND k.catcode = 'R';
SELECT c.relname, a.attname
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  JOIN pg_get_keywords() k ON k.word = a.attname AND k.catcode = 'R'
 WHERE c.relnamespace = 'taskq'::regnamespace;
-- it leaves nothing behind, with tasks or without
SELECT taskq_submit('gone') > 0 AS submitted;
DROP EXTENSION taskq;
SELECT nspname FROM pg_namespace WHERE nspname = 'taskq';
SELECT proname FROM pg_proc WHERE proname LIKE 'taskq%';
CREATE EXTENSION taskq;
SELECT count(*) FROM taskq.tasks;
SELECT taskq_submit('again') AS first_id;
SELECT taskq_drop_queue('again', true) AS removed;
-- a second CREATE EXTENSION raises PostgreSQL's own error
CREATE EXTENSION taskq;
SET client_min_messages = notice;
CREATE EXTENSION IF NOT EXISTS taskq;
RESET client_min_messages;
--
-- Objects that the other tests use.
--
CREATE SCHEMA t;
GRANT USAGE ON SCHEMA t TO PUBLIC;
-- the result of a statement: its first value, or its error in one line
CREATE FUNCTION t.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    message text;
    detail text;
    hint text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN coalesce(answer, 'null');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || message
        || CASE WHEN detail <> '' THEN ' | ' || detail ELSE '' END
        || CASE WHEN hint <> '' THEN ' | ' || hint ELSE '' END;
END
$$;
-- the same without DETAIL and HINT, and with numbers as ID
CREATE FUNCTION t.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE command INTO answer;
    RETURN coalesce(answer, '(null)');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, '\d+', 'ID', 'g');
END
$$;
-- the same, but only the SQLSTATE
CREATE FUNCTION t.code(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END
$$;
-- is this query true within ten seconds?
CREATE PROCEDURE t.until(query text) LANGUAGE plpgsql AS $$
DECLARE
    answer boolean;
    started timestamptz := clock_timestamp();
BEGIN
    LOOP
        EXECUTE query INTO answer;
        EXIT WHEN answer;
        IF clock_timestamp() > started + interval '10 s' THEN
            RAISE EXCEPTION 'not true within 10 s: %', query;
        END IF;
        COMMIT;
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
