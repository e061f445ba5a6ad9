/*
 * 47_workflow: workflows.
 *
 * Defining requires manage on all queues, and starting requires submit on
 * every queue that the template names.  Cancelling requires manage on all of
 * these queues, and reading requires observe on one of them, and read for
 * contents.
 * taskq_await_workflow commits, and holds no snapshot and no lock while it
 * sleeps.
 */
CREATE FUNCTION taskq_define_workflow(definition jsonb, reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_define_workflow';
COMMENT ON FUNCTION taskq_define_workflow(jsonb, text) IS
    'Defines a version of a workflow; TQ011 lists all problems of the definition, TQ006 if the version exists with another definition';

CREATE FUNCTION taskq_undefine_workflow(
    name text,
    namespace text DEFAULT 'default',
    version text DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_undefine_workflow';
COMMENT ON FUNCTION taskq_undefine_workflow(text, text, text, text) IS
    'Removes a version of a workflow (null: all of them) and returns their number; TQ005 while unfinished instances exist';

CREATE FUNCTION taskq_validate_workflow(definition jsonb)
    RETURNS TABLE (path text, problem text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_validate_workflow';
COMMENT ON FUNCTION taskq_validate_workflow(jsonb) IS
    'All problems of a definition, with their paths; no rows for a valid definition';

CREATE FUNCTION taskq_start_workflow(
    name text,
    input jsonb DEFAULT '{}',
    namespace text DEFAULT 'default',
    version text DEFAULT NULL,
    key text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamp with time zone DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    parent_correlation_id text DEFAULT NULL,
    headers jsonb DEFAULT NULL,
    on_conflict text DEFAULT 'error'
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_start_workflow';
COMMENT ON FUNCTION taskq_start_workflow(text, jsonb, text, text, text, integer, timestamp with time zone, text, text, jsonb, text) IS
    'Starts an instance of a workflow (version null: the latest) and returns its id; if an instance has the same identity, raises TQ006, or with on_conflict return, returns the id of that instance';

CREATE FUNCTION taskq_cancel_workflow(
    workflow_id bigint,
    reason text DEFAULT NULL
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_cancel_workflow';
COMMENT ON FUNCTION taskq_cancel_workflow(bigint, text) IS
    'Cancels an instance: cancels its waiting steps, and asks the workers of running steps to stop; returns cancelled, or requested if a step is running';

CREATE FUNCTION taskq_signal(
    workflow_id bigint,
    name text,
    payload jsonb DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_signal';
COMMENT ON FUNCTION taskq_signal(bigint, text, jsonb) IS
    'Sends a signal to an instance; true if it is the first signal of the name, and a step waits or may wait for it';

CREATE FUNCTION taskq_ancestor_results(task_id bigint) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_ancestor_results';
COMMENT ON FUNCTION taskq_ancestor_results(bigint) IS
    'Object with the results of all steps that come before a step, by name';

CREATE FUNCTION taskq_dependency_results(
    task_id bigint,
    after bigint DEFAULT NULL,
    max_rows integer DEFAULT 100
) RETURNS TABLE (step text, task_id bigint, result jsonb)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_dependency_results';
COMMENT ON FUNCTION taskq_dependency_results(bigint, bigint, integer) IS
    'Results of the steps on which a step depends, in the order of their task ids, up to max_rows at a time';

CREATE FUNCTION taskq_checkpoints(task_id bigint)
    RETURNS TABLE (at timestamp with time zone, attempt integer,
        cursor jsonb, items jsonb, size integer)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_checkpoints';
COMMENT ON FUNCTION taskq_checkpoints(bigint) IS
    'The last ten checkpoints of a step: time, attempt, the members cursor and items, and the size';

CREATE FUNCTION taskq.batch_totals_add(totals internal, result jsonb) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_batch_totals_add';
COMMENT ON FUNCTION taskq.batch_totals_add(internal, jsonb) IS
    'Transition function of taskq_batch_totals';

CREATE FUNCTION taskq.batch_totals_end(totals internal) RETURNS jsonb
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_batch_totals_end';
COMMENT ON FUNCTION taskq.batch_totals_end(internal) IS
    'Final function of taskq_batch_totals';

CREATE AGGREGATE taskq_batch_totals(result jsonb) (
    SFUNC = taskq.batch_totals_add,
    STYPE = internal,
    FINALFUNC = taskq.batch_totals_end,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE taskq_batch_totals(jsonb) IS
    'Object with the sum of the numbers that the results have under each name';

CREATE FUNCTION taskq_workflow(workflow_id bigint) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_workflow';
COMMENT ON FUNCTION taskq_workflow(bigint) IS
    'An instance: its state, the numbers of its steps, its steps and edges, a verdict, what blocks it, and what to do next';

CREATE FUNCTION taskq_step_levels(workflow_id bigint)
    RETURNS TABLE (step text, level integer)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_step_levels';
COMMENT ON FUNCTION taskq_step_levels(bigint) IS
    'Level of each step of the template: the length of the longest path to it from a step without dependencies, whose level is 0';

CREATE FUNCTION taskq_workflow_graph(
    workflow_id bigint,
    format text DEFAULT 'dot'
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_workflow_graph';
COMMENT ON FUNCTION taskq_workflow_graph(bigint, text) IS
    'Graph of an instance with the states of its steps, for Graphviz (dot) or Mermaid (mermaid)';

CREATE FUNCTION taskq_timeline(
    task_id bigint DEFAULT NULL,
    workflow_id bigint DEFAULT NULL,
    correlation_id text DEFAULT NULL
) RETURNS TABLE (at timestamp with time zone, workflow_id bigint, step text,
        task_id bigint, from_state text, to_state text, reason text,
        attempt integer, token bigint, worker text, role text, message text,
        actor text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_timeline';
COMMENT ON FUNCTION taskq_timeline(bigint, bigint, text) IS
    'Changes of state from the history, in their order: of a task, of the steps of an instance, or of all tasks with a correlation id';

CREATE PROCEDURE taskq_await_workflow(
    workflow_id bigint,
    timeout interval DEFAULT '30 s',
    INOUT state text DEFAULT NULL,
    INOUT result jsonb DEFAULT NULL
)
    LANGUAGE c
    AS 'MODULE_PATHNAME', 'taskq_await_workflow';
COMMENT ON PROCEDURE taskq_await_workflow(bigint, interval, text, jsonb) IS
    'Waits until an instance has ended, or until the timeout; returns its state, and the result if it has ended; commits before it sleeps';

CREATE FUNCTION taskq.workflow_look(
    workflow_id bigint,
    OUT state text,
    OUT steps_total bigint,
    OUT steps_done bigint,
    OUT steps_dead bigint,
    OUT steps_running bigint,
    OUT started_at timestamp with time zone,
    OUT reason text,
    OUT sight integer
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_workflow_look';
COMMENT ON FUNCTION taskq.workflow_look(bigint) IS
    'State of an instance, numbers of its steps, and whether current_user may see that it exists (1), also its contents as workflow_contents shows them (2), or all of its contents (3); nulls if the user may not see it';

CREATE FUNCTION taskq.workflow_contents(workflow_id bigint, document jsonb)
    RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_workflow_contents';
COMMENT ON FUNCTION taskq.workflow_contents(bigint, jsonb) IS
    'Input or result of an instance, as current_user may see it: without the privilege manage on the queues of its steps, redacted as their options redact say; null if the user may not read all of these queues';

CREATE FUNCTION taskq.workflow_step_rows(workflow_id bigint)
    RETURNS TABLE (step text, type text, task_id bigint, state text,
        reason text, attempt integer, parents_left integer,
        depends_on text[], result jsonb,
        created_at timestamp with time zone,
        claimed_at timestamp with time zone,
        finished_at timestamp with time zone)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'taskq_workflow_step_rows';
COMMENT ON FUNCTION taskq.workflow_step_rows(bigint) IS
    'Steps of an instance that current_user may see';

CREATE FUNCTION taskq.batch_rows(workflow_id bigint)
    RETURNS TABLE (step text, members integer, done integer, failed integer,
        items numeric, rate numeric, eta timestamp with time zone)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'taskq_batch_rows';
COMMENT ON FUNCTION taskq.batch_rows(bigint) IS
    'Progress of the batches of an instance that current_user may see';

CREATE VIEW taskq.workflows WITH (security_barrier) AS
SELECT w.workflow_id,
       t.namespace COLLATE "default" AS namespace,
       t.name COLLATE "default" AS name,
       t.version COLLATE "default" AS version,
       w.key COLLATE "default" AS key,
       l.state,
       l.reason,
       CASE WHEN l.sight OPERATOR(pg_catalog.=) 3 THEN w.input
            WHEN l.sight OPERATOR(pg_catalog.=) 2 THEN taskq.workflow_contents(w.workflow_id, w.input)
       END AS input,
       CASE WHEN l.sight OPERATOR(pg_catalog.=) 3 THEN w.result
            WHEN l.sight OPERATOR(pg_catalog.=) 2 THEN taskq.workflow_contents(w.workflow_id, w.result)
       END AS result,
       w.priority,
       l.steps_total,
       l.steps_done,
       l.steps_dead,
       l.steps_running,
       w.correlation_id COLLATE "default" AS correlation_id,
       w.parent_id AS parent_workflow_id,
       w.created_at,
       l.started_at,
       w.finished_at
  FROM taskq.workflow w
  JOIN taskq.template t USING (template_id)
 CROSS JOIN LATERAL taskq.workflow_look(w.workflow_id) l
 WHERE l.sight OPERATOR(pg_catalog.>) 0
   AND (w.expires_at IS NULL OR w.expires_at OPERATOR(pg_catalog.>) '-infinity'::timestamptz);
COMMENT ON VIEW taskq.workflows IS 'Instances of workflows that current_user may see, as they are now';

CREATE VIEW taskq.workflow_steps WITH (security_barrier) AS
SELECT w.workflow_id,
       s.step,
       s.type,
       s.task_id,
       s.state,
       s.reason,
       s.attempt,
       s.parents_left,
       s.depends_on,
       s.result,
       s.created_at,
       s.claimed_at,
       s.finished_at
  FROM taskq.workflow w
 CROSS JOIN LATERAL taskq.workflow_step_rows(w.workflow_id) s
 WHERE w.expires_at IS NULL OR w.expires_at OPERATOR(pg_catalog.>) '-infinity'::timestamptz;
COMMENT ON VIEW taskq.workflow_steps IS
    'Steps of instances that current_user may see; state is null while a step has not been created, and skipped if it will not be created';

CREATE VIEW taskq.batch_progress WITH (security_barrier) AS
SELECT w.workflow_id,
       b.step,
       b.members,
       b.done,
       b.failed,
       b.items,
       b.rate,
       b.eta
  FROM taskq.workflow w
 CROSS JOIN LATERAL taskq.batch_rows(w.workflow_id) b
 WHERE w.expires_at IS NULL OR w.expires_at OPERATOR(pg_catalog.>) '-infinity'::timestamptz;
COMMENT ON VIEW taskq.batch_progress IS
    'Progress of the batches of instances that current_user may see; unknown values are null';
