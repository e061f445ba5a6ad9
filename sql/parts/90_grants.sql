/*
 * 90_grants: initial privileges.
 *
 * PUBLIC may read the filtered views and execute the functions that the views
 * call.  EXECUTE on all other functions is granted only by taskq_grant.
 */
INSERT INTO taskq.function_right (function, rights) VALUES
    ('taskq_submit', 1),
    ('taskq_submit_many', 1),
    ('taskq_submit_tasks', 1),
    ('taskq_claim', 2),
    ('taskq_wait', 2),
    ('taskq_complete', 2),
    ('taskq_fail', 2),
    ('taskq_release', 2),
    ('taskq_suspend', 2),
    ('taskq_filter', 2),
    ('taskq_extend', 2),
    ('taskq_progress', 2),
    ('taskq_checkpoint', 2),
    ('taskq_complete_many', 2),
    ('taskq_decide_many', 2),
    ('taskq_extend_many', 2),
    ('taskq_complete_and_claim', 2),
    ('taskq_register', 2),
    ('taskq_heartbeat', 2),
    ('taskq_deregister', 2),
    ('taskq_drain', 2),
    ('taskq_expire', 2),
    ('taskq_await', 21),
    ('taskq_call', 1),
    ('taskq_get', 20),
    ('taskq_get_many', 20),
    ('taskq_list', 20),
    ('taskq_failures', 20),
    ('taskq_lineage', 20),
    ('taskq_explain', 20),
    ('taskq_explain_claim', 22),
    ('taskq_cancel', 8),
    ('taskq_retry', 8),
    ('taskq_recreate', 8),
    ('taskq_resolve', 8),
    ('taskq_hold', 8),
    ('taskq_poison', 8),
    ('taskq_unpoison', 8),
    ('taskq_retry_all', 8),
    ('taskq_manage_many', 8),
    ('taskq_update_task', 8),
    ('taskq_junction', 8),
    ('taskq_change', 3),
    ('taskq_claim_one', 2),
    ('taskq_claim_docs', 2),
    ('taskq_recreate_all', 8),
    ('taskq_reassign', 8),
    ('taskq_count', 20),
    ('taskq_sequence_at', 20),
    ('taskq_worst_outcome', 31),
    ('taskq_fingerprint', 31),
    ('taskq_define_workflow', 8),
    ('taskq_undefine_workflow', 8),
    ('taskq_validate_workflow', 9),
    ('taskq_start_workflow', 1),
    ('taskq_cancel_workflow', 8),
    ('taskq_signal', 1),
    ('taskq_ancestor_results', 6),
    ('taskq_dependency_results', 6),
    ('taskq_checkpoints', 20),
    ('taskq_batch_totals', 31),
    ('taskq_workflow', 20),
    ('taskq_step_levels', 20),
    ('taskq_workflow_graph', 20),
    ('taskq_timeline', 20),
    ('taskq_await_workflow', 21),
    ('taskq_schedule', 1),
    ('taskq_unschedule', 9),
    ('taskq_run_schedule', 9),
    ('taskq_preview_schedule', 9),
    ('taskq_manage_where', 8),
    ('taskq_pause_operation', 8),
    ('taskq_resume_operation', 8),
    ('taskq_cancel_operation', 8),
    ('taskq_create_queue', 8),
    ('taskq_alter_queue', 8),
    ('taskq_drop_queue', 8),
    ('taskq_purge', 8),
    ('taskq_pause', 8),
    ('taskq_resume', 8),
    ('taskq_grant', 8),
    ('taskq_revoke', 8),
    ('taskq_run_reapers', 8),
    ('taskq_check', 8),
    ('taskq_health', 8),
    ('taskq_openmetrics', 20);

DO $$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT p.oid::pg_catalog.regprocedure AS name
          FROM pg_catalog.pg_proc p
          JOIN pg_catalog.pg_depend d
            ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
           AND d.objid OPERATOR(pg_catalog.=) p.oid
           AND d.deptype OPERATOR(pg_catalog.=) 'e'
          JOIN pg_catalog.pg_extension e
            ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
           AND d.refobjid OPERATOR(pg_catalog.=) e.oid
           AND e.extname OPERATOR(pg_catalog.=) 'taskq'
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', item.name);
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA taskq TO PUBLIC;
GRANT SELECT ON taskq.tasks, taskq.running, taskq.dead, taskq.queues,
    taskq.workers, taskq.history, taskq.documents, taskq.settings,
    taskq.metrics, taskq.metric_history, taskq.workflows, taskq.workflow_steps,
    taskq.batch_progress, taskq.schedules, taskq.operations, taskq.changes TO PUBLIC;
GRANT EXECUTE ON FUNCTION taskq.state_name(smallint), taskq.reason_name(smallint),
    taskq.may_read(integer), taskq.may_read_payload(integer),
    taskq.may_observe(integer), taskq.contents(integer, jsonb),
    taskq.may_see_worker(integer), taskq.worker_seen(integer),
    taskq.worker_running(integer),
    taskq.queue_numbers(integer),
    taskq.metric_rows(), taskq.metric_minutes(integer),
    taskq.workflow_look(bigint), taskq.workflow_contents(bigint, jsonb),
    taskq.workflow_step_rows(bigint), taskq.batch_rows(bigint),
    taskq.task_progress(bigint, bigint) TO PUBLIC;
GRANT EXECUTE ON FUNCTION taskq_version() TO PUBLIC;
GRANT EXECUTE ON FUNCTION taskq_get(bigint), taskq_get_many(bigint[]),
    taskq_list(text, text, bigint, integer, text, text, boolean, text, boolean, jsonb, bigint),
    taskq_lineage(bigint),
    taskq_explain(bigint),
    taskq_explain_claim(text, text, text[]),
    taskq_count(text, text, text, text, text, bigint, bigint,
        timestamp with time zone, timestamp with time zone),
    taskq_sequence_at(timestamp with time zone, boolean),
    taskq_workflow(bigint), taskq_step_levels(bigint),
    taskq_workflow_graph(bigint, text),
    taskq_timeline(bigint, bigint, text) TO pg_monitor;
GRANT EXECUTE ON PROCEDURE taskq_await(bigint, interval, text, jsonb, text),
    taskq_await_workflow(bigint, interval, text, jsonb) TO pg_monitor;
GRANT EXECUTE ON FUNCTION taskq_health(), taskq_openmetrics(text),
    taskq.range_numbers() TO pg_monitor;
