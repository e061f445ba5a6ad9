--
-- workflow_graph: an instance as a picture, for Graphviz and for Mermaid
--
SELECT taskq_create_queue('wg'), taskq_create_queue('wg other');
CREATE SCHEMA wg;
CREATE FUNCTION wg.graph(flow bigint, format text DEFAULT 'dot') RETURNS text LANGUAGE sql AS
$$ SELECT regexp_replace(taskq_workflow_graph(flow, format), '(workflow[_ ])' || flow, '\1N', 'g') $$;
CREATE FUNCTION wg.nodes(flow bigint) RETURNS SETOF text LANGUAGE sql AS
$$ SELECT line FROM regexp_split_to_table(taskq_workflow_graph(flow), '\n') line WHERE line ~ '^  n\d' $$;
CREATE FUNCTION wg.work(queue text, result jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS
$$ SELECT step || taskq_complete(task_id, token, result)::text FROM taskq_claim(queue) $$;
\pset format unaligned
-- every kind of step: done, running, dead, blocked, not created yet, and in reverse
SELECT taskq_define_workflow('{"name": "order \"a\\b\" & [c]", "version": "1", "queue": "wg", "steps": [
  {"name": "receive"}, {"name": "charge", "depends_on": ["receive"]}, {"name": "look", "type": "decision", "depends_on": ["receive"]},
  {"name": "good", "depends_on": ["look"]}, {"name": "bad", "depends_on": ["look"]}, {"name": "send", "type": "deferred", "depends_on": ["charge", "good", "bad"]}]}');
SELECT taskq_start_workflow('order "a\b" & [c]') AS w \gset
SELECT wg.graph(:w);
SELECT wg.work('wg');
SELECT step, taskq_fail(task_id, token, 'no', false) FROM taskq_claim('wg');
SELECT wg.work('wg', '{"create": ["good"]}');
SELECT count(*) FROM taskq_claim('wg');
SELECT wg.graph(:w);
SELECT wg.graph(:w, 'mermaid');
-- the default is dot, also for null
SELECT taskq_workflow_graph(:w) = taskq_workflow_graph(:w, 'dot') AS by_default, taskq_workflow_graph(:w, NULL) = taskq_workflow_graph(:w, 'dot') AS by_null;
-- names with every special character of a language
SELECT taskq_define_workflow(jsonb_build_object('name', 'wg names', 'version', '1', 'queue', 'wg', 'steps', jsonb_agg(jsonb_build_object('name', name) ORDER BY n)))
  FROM unnest(ARRAY['"quoted"', 'ends with \', '\n \N \" \\', '<b>bold</b>', '&lt; & &amp;', '[a] (b) {c} |d|', 'end', '#35; #quot;', '%% x -->', '`code` *x* _y_', '1. one', '- two', ';', 'a->b', '/* x */ // y', '$(x)', 'graph', 'Größe 漢字 🙂', repeat('x', 200)])
       WITH ORDINALITY u (name, n);
SELECT taskq_start_workflow('wg names') AS names \gset
SELECT wg.graph(:names);
SELECT line FROM regexp_split_to_table(wg.graph(:names, 'mermaid'), '\n') line WHERE line !~ 'classDef';
-- what is read back is what was written
CREATE FUNCTION wg.names(flow bigint, format text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    word text;
    code text[];
BEGIN
    FOR word IN SELECT (regexp_match(line, CASE format WHEN 'dot' THEN 'label="((?:[^"\\]|\\.)*)\\n' ELSE '^  n\d+\["([^"]*)<br/>' END))[1]
                  FROM regexp_split_to_table(taskq_workflow_graph(flow, format), '\n') line WHERE line ~ '^  n\d+ ?\['
    LOOP
        IF format = 'dot' THEN
            RETURN NEXT replace(regexp_replace(word, '\\(.)', '\1', 'g'), '&amp;', '&');
        ELSE
            FOR code IN SELECT DISTINCT m FROM regexp_matches(word, '#(\d+);', 'g') m WHERE m[1] <> '35' LOOP
                word := replace(word, '#' || code[1] || ';', chr(code[1]::int));
            END LOOP;
            RETURN NEXT replace(word, '#35;', '#');
        END IF;
    END LOOP;
END
$$;
SELECT f, (SELECT array_agg(n) FROM wg.names(:names, f) n) = (SELECT array_agg(step ORDER BY task_id) FROM taskq.workflow_steps WHERE workflow_id = :names) AS same FROM unnest('{dot,mermaid}'::text[]) f;
-- members of batches: each of up to twenty, otherwise their counts
SELECT taskq_define_workflow('{"name": "wg batch", "version": "1", "queue": "wg other", "steps": [{"name": "split", "type": "batch", "failure_strategy": "isolate"}, {"name": "part", "type": "batch_worker", "depends_on": ["split"]},
  {"name": "join", "type": "deferred", "depends_on": ["part"]}]}');
SELECT taskq_start_workflow('wg batch') AS b \gset
SELECT wg.nodes(:b);
SELECT wg.work('wg other', '{"total": 3, "size": 1}'), wg.work('wg other');
SELECT wg.nodes(:b);
SELECT line FROM regexp_split_to_table(taskq_workflow_graph(:b, 'mermaid'), '\n') line WHERE line ~ '^  n\d';
SELECT taskq_cancel_workflow(:b);
SELECT taskq_start_workflow('wg batch') AS b \gset
SELECT wg.work('wg other', '{"total": 20, "size": 1}');
SELECT count(*) FROM wg.nodes(:b);
SELECT taskq_cancel_workflow(:b);
SELECT taskq_start_workflow('wg batch') AS b \gset
SELECT wg.work('wg other', '{"total": 21, "size": 1}');
SELECT wg.nodes(:b);
SELECT count(wg.work('wg other')) FROM generate_series(1, 18);
SELECT taskq_fail(task_id, token, 'no', false) FROM taskq_claim('wg other');
SELECT wg.nodes(:b);
SELECT taskq_workflow_graph(:b, 'mermaid') ~ 'n1\["part<br/>21 members, 2 pending, 18 done, 1 dead"\]:::several\n' AS folded;
-- no members: the join runs, and no members will exist
SELECT taskq_cancel_workflow(:b);
SELECT taskq_start_workflow('wg batch') AS b \gset
SELECT wg.work('wg other', '{"batches": []}');
SELECT wg.nodes(:b);
-- an instance without steps
SELECT taskq_define_workflow('{"name": "wg nothing", "version": "1", "steps": []}');
SELECT wg.graph(taskq_start_workflow('wg nothing'));
-- invalid arguments
\pset format aligned
SELECT c, t.try(c) FROM unnest(ARRAY['SELECT taskq_workflow_graph(0)', 'SELECT taskq_workflow_graph(NULL)', 'SELECT taskq_workflow_graph(0, ''svg'')', 'SELECT taskq_workflow_graph(0, ''DOT'')', 'SELECT taskq_workflow_graph(0, '''')']) c;
-- a role that may read some of the queues sees all steps, and the states of those
CREATE ROLE regress_taskq_wg_read;
CREATE ROLE regress_taskq_wg_work;
CREATE ROLE regress_taskq_wg_monitor IN ROLE pg_monitor;
SELECT taskq_grant('wg other', 'regress_taskq_wg_read', '{read}');
SELECT taskq_grant('wg', 'regress_taskq_wg_work', '{work}');
SELECT taskq_grant('wg other', 'regress_taskq_wg_work', '{read}');
SELECT taskq_define_workflow('{"name": "wg two", "version": "1", "queue": "wg", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"], "queue": "wg other"}, {"name": "split", "type": "batch", "depends_on": ["b"]},
  {"name": "part", "type": "batch_worker", "depends_on": ["split"]}, {"name": "join", "type": "deferred", "depends_on": ["part"], "queue": "wg other"}]}');
SELECT taskq_start_workflow('wg two', priority => 7) AS two \gset
SELECT wg.work('wg'), wg.work('wg other'), wg.work('wg', '{"total": 2, "size": 1}');
GRANT USAGE ON SCHEMA wg TO PUBLIC;
SELECT wg.nodes(:two);
SET ROLE regress_taskq_wg_read;
SELECT wg.nodes(:two);
SELECT t.code(format('SELECT taskq_workflow_graph(%s)', :w)), regexp_replace(t.try(format('SELECT taskq_workflow_graph(%s)', :w)), '\d+', 'N', 'g') = regexp_replace(t.try('SELECT taskq_workflow_graph(0)'), '\d+', 'N', 'g') AS same;
SET ROLE regress_taskq_wg_work;
SELECT t.code(format('SELECT taskq_workflow_graph(%s)', :w));
SET ROLE regress_taskq_wg_monitor;
SELECT wg.nodes(:two);
-- pg_monitor: everything about an instance but its contents
SELECT d - '{steps,edges,workflow_id,next,blocked_by,correlation_id}'::text[] FROM taskq_workflow(:two) d;
SELECT * FROM taskq_step_levels(:two) ORDER BY level, step;
RESET ROLE;
-- ten thousand steps
BEGIN;
SELECT taskq_define_workflow(jsonb_build_object('name', 'wg long', 'version', '1', 'queue', 'wg', 'steps', jsonb_agg(jsonb_build_object('name', 's' || i, 'depends_on', CASE WHEN i > 1 THEN jsonb_build_array('s' || i - 1) ELSE '[]' END) ORDER BY i)))
  FROM generate_series(1, 10000) i;
SELECT taskq_start_workflow('wg long') AS long \gset
SELECT f, count(*) FILTER (WHERE line ~ '^  n\d+ ?\[') AS nodes, count(*) FILTER (WHERE line ~ '^  n\d+ --?> ') AS edges
  FROM unnest('{dot,mermaid}'::text[]) f, regexp_split_to_table(taskq_workflow_graph(:long, f), '\n') line GROUP BY f ORDER BY f;
ROLLBACK;
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE workflow_id IN (:names, :two, :b);
SELECT * FROM taskq_check();
SET client_min_messages = warning;
DROP SCHEMA wg CASCADE;
RESET client_min_messages;
DROP OWNED BY regress_taskq_wg_read, regress_taskq_wg_work, regress_taskq_wg_monitor;
DROP ROLE regress_taskq_wg_read, regress_taskq_wg_work, regress_taskq_wg_monitor;
