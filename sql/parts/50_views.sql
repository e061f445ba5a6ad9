/*
 * 50_views: public views, filtered by privilege.
 *
 * The subquery beside taskq.task_scan is never executed.  It keeps a view from
 * being updatable.  It calls a function that is not parallel safe, so it also
 * keeps the view out of parallel plans, which the scan does not support.
 */
CREATE VIEW taskq.tasks WITH (security_barrier) AS
SELECT s.task_id, s.queue, s.state, s.reason, s.message, s.priority,
       s.attempt, s.max_attempts, s.token, s.version, s.key, s.reference,
       s.tags, s.payload, s.data, s.headers, s.correlation_id, s.result,
       s.error, s.errors, s.checkpoint, s.progress, s.worker, s.created_at,
       s.run_at, s.deadline, s.claimed_at, s.lease_until, s.finished_at,
       s.cancel_requested_at, s.submitted_by, s.run_as, s.descent,
       s.recreated_as, s.workflow_id, s.step
  FROM taskq.task_scan s, (SELECT taskq.may_read(0)) AS nothing;
COMMENT ON VIEW taskq.tasks IS 'Tasks, live and finished, that current_user may read';

CREATE VIEW taskq.running WITH (security_barrier) AS
SELECT s.task_id, s.queue, s.worker, s.attempt, s.max_attempts, s.token,
       s.claimed_at, s.lease_until, s.worker_seen, s.progress,
       s.progress_message AS message, s.cancel_requested_at, s.priority,
       s.key, s.reference, s.correlation_id
  FROM taskq.task_scan s, (SELECT taskq.may_read(0)) AS nothing
 WHERE s.state OPERATOR(pg_catalog.=) 'running';
COMMENT ON VIEW taskq.running IS
    'Running tasks that current_user may read: holder, start, end of the lease, and progress';

CREATE VIEW taskq.dead WITH (security_barrier) AS
SELECT s.task_id, s.queue, s.reason, s.error, s.message, s.attempt,
       s.max_attempts, s.finished_at, s.created_at, s.worker, s.priority,
       s.key, s.reference, s.correlation_id
  FROM taskq.task_scan s, (SELECT taskq.may_read(0)) AS nothing
 WHERE s.state OPERATOR(pg_catalog.=) 'dead';
COMMENT ON VIEW taskq.dead IS 'Dead tasks that current_user may read, with their errors';

CREATE FUNCTION taskq.queue_numbers(
    queue_id integer,
    OUT pending bigint,
    OUT ready bigint,
    OUT blocked bigint,
    OUT running bigint,
    OUT suspended bigint,
    OUT done bigint,
    OUT dead bigint,
    OUT counted_at timestamp with time zone,
    OUT oldest_ready_age interval,
    OUT active_workers bigint,
    OUT rates jsonb,
    OUT waiters bigint
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_queue_numbers';
COMMENT ON FUNCTION taskq.queue_numbers(integer) IS
    'Numbers of tasks of a queue that current_user may read: the current numbers of live tasks, including changes of this transaction, and the numbers of finished tasks as of counted_at; nulls for other queues';

CREATE VIEW taskq.queues WITH (security_barrier) AS
SELECT q.name COLLATE "default" AS queue,
       r.name COLLATE "default" AS owner,
       q.paused_at IS NOT NULL
         AND (q.paused_until IS NULL
              OR q.paused_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()) AS paused,
       l.pending,
       l.ready,
       l.blocked,
       l.running,
       l.suspended,
       l.done,
       l.dead,
       l.counted_at,
       l.oldest_ready_age,
       l.active_workers,
       l.waiters,
       q.options,
       l.rates
  FROM taskq.queue q
  LEFT JOIN taskq.role r ON r.role_id OPERATOR(pg_catalog.=) q.owner_role
 CROSS JOIN LATERAL taskq.queue_numbers(q.queue_id) l
 WHERE q.queue_id OPERATOR(pg_catalog.<>) 0
   AND taskq.may_read(q.queue_id);
COMMENT ON VIEW taskq.queues IS
    'Queues that current_user may read, with the numbers of their tasks; oldest_ready_age is null if no task is ready; waiters is null without preloading';

CREATE FUNCTION taskq.may_see_worker(role_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_may_see_worker';
COMMENT ON FUNCTION taskq.may_see_worker(integer) IS
    'May current_user see the workers that the role registered?';

CREATE FUNCTION taskq.worker_running(worker_id integer) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_worker_running';
COMMENT ON FUNCTION taskq.worker_running(integer) IS 'Number of tasks that a worker holds';

CREATE VIEW taskq.workers WITH (security_barrier) AS
SELECT w.name COLLATE "default" AS worker,
       CASE WHEN w.state OPERATOR(pg_catalog.=) @WORKER_DEAD@ THEN 'dead'
            WHEN s.seen OPERATOR(pg_catalog.<)
                 (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-)
                  (SELECT t.setting::double precision OPERATOR(pg_catalog.*) interval '1 s'
                     FROM pg_catalog.pg_settings t
                    WHERE t.name OPERATOR(pg_catalog.=) 'taskq.stale_threshold')) THEN 'stale'
            ELSE 'active'
       END AS state,
       w.queues,
       w.tags,
       taskq.worker_running(w.worker_id) AS running,
       w.max_running,
       w.bound_session IS NOT NULL AS bound,
       r.name COLLATE "default" AS role,
       w.registered_at,
       coalesce(s.seen, w.ended_at) AS last_seen,
       w.info
  FROM taskq.worker w
  LEFT JOIN taskq.role r USING (role_id)
 CROSS JOIN LATERAL (
       SELECT CASE WHEN w.state OPERATOR(pg_catalog.=) @WORKER_ACTIVE@
                   THEN taskq.worker_seen(w.worker_id) END AS seen) s
 WHERE w.state IN (@WORKER_ACTIVE@, @WORKER_DEAD@)
   AND taskq.may_see_worker(w.role_id);
COMMENT ON VIEW taskq.workers IS
    'Workers, registered or declared dead, of the roles that current_user may see; last_seen is null if not known';

CREATE VIEW taskq.schedules WITH (security_barrier) AS
SELECT s.name COLLATE "default" AS name,
       s.plan AS schedule,
       s.queue COLLATE "default" AS queue,
       s.timezone,
       s.overlap,
       CASE WHEN NOT s.cron THEN s.catch_up END AS catch_up,
       s.enabled,
       s.next_run,
       s.last_run,
       s.last_task_id,
       CASE WHEN NOT s.cron THEN s.misses END AS misses,
       r.name COLLATE "default" AS owner,
       s.problem,
       s.last_workflow_id
  FROM taskq.schedule s
  LEFT JOIN taskq.role r USING (role_id)
  LEFT JOIN taskq.known_role k USING (role_id)
  LEFT JOIN taskq.queue q ON q.name OPERATOR(pg_catalog.=) s.queue
 WHERE taskq.may_read(coalesce(q.queue_id, 0))
    OR pg_catalog.pg_has_role(k.oid, 'USAGE');
COMMENT ON VIEW taskq.schedules IS
    'Schedules of the queues that current_user may read, and of the roles whose privileges it has';

CREATE VIEW taskq.operations WITH (security_barrier) AS
SELECT o.operation_id,
       o.action,
       o.queue COLLATE "default" AS queue,
       CASE WHEN o.own OR taskq.may_read_payload(o.queue_id) THEN o.filter END AS filter,
       r.name COLLATE "default" AS who,
       o.actor,
       CASE WHEN o.own OR taskq.may_observe(o.queue_id) THEN o.reason END AS reason,
       o.dry_run,
       o.state,
       o.counted,
       o.done,
       o.refused,
       o.examples AS refused_examples,
       o.examined,
       o.called_at AS called,
       o.started_at AS started,
       o.finished_at AS finished,
       CASE WHEN o.own OR taskq.may_read_payload(o.queue_id) THEN o.error END AS error
  FROM (SELECT p.*,
               coalesce(pg_catalog.pg_has_role(k.oid, 'USAGE'), false) AS own
          FROM taskq.operation p
          LEFT JOIN taskq.known_role k USING (role_id)) o
  LEFT JOIN taskq.role r USING (role_id)
 WHERE o.own OR taskq.may_read(o.queue_id);
COMMENT ON VIEW taskq.operations IS
    'Operations on queues that current_user may read, and of the roles whose privileges it has; of others it shows filter and error only with the privilege read, and with manage too if the queue has the option redact, and reason only with observe';

CREATE VIEW taskq.history WITH (security_barrier) AS
SELECT t.task_id,
       q.name COLLATE "default" AS queue,
       t.at,
       taskq.state_name(t.from_state) AS from_state,
       taskq.state_name(t.to_state) AS to_state,
       taskq.reason_name(t.reason) AS reason,
       t.attempt,
       t.token,
       w.name COLLATE "default" AS worker,
       r.name COLLATE "default" AS role,
       CASE WHEN taskq.may_observe(t.queue_id) THEN t.message END AS message,
       t.transition_id,
       t.actor
  FROM taskq.transition t
  LEFT JOIN taskq.queue q ON q.queue_id OPERATOR(pg_catalog.=) t.queue_id
  LEFT JOIN taskq.worker w ON w.worker_id OPERATOR(pg_catalog.=) t.worker_id
  LEFT JOIN taskq.role r ON r.role_id OPERATOR(pg_catalog.=) t.role_id
 WHERE taskq.may_read(t.queue_id);
COMMENT ON VIEW taskq.history IS
    'Changes of tasks that current_user may read: changes of state in queues with the option history, and manual changes in all queues; from_state is to_state if a manual change leaves the state; to_state is null if the task was deleted, or the step was removed because the choice that created it was undone; transition_id gives the order for one task; actor is the setting taskq.actor';

CREATE VIEW taskq.changes WITH (security_barrier) AS
SELECT c.change_id,
       c.at,
       r.name COLLATE "default" AS role,
       c.actor,
       c.what COLLATE "default" AS what,
       c.queue COLLATE "default" AS queue,
       c.object COLLATE "default" AS object,
       c.detail,
       c.reason
  FROM taskq.change_log c
  LEFT JOIN taskq.role r USING (role_id)
  LEFT JOIN taskq.known_role k USING (role_id)
  LEFT JOIN taskq.queue q ON q.name OPERATOR(pg_catalog.=) c.queue
 WHERE taskq.may_read(coalesce(q.queue_id, 0))
    OR pg_catalog.pg_has_role(k.oid, 'USAGE');
COMMENT ON VIEW taskq.changes IS
    'Changes to queues, rights, workers, schedules and templates: those that concern a queue that current_user may read, and those made by roles whose privileges it has; others to roles that may read all queues';

CREATE VIEW taskq.settings AS
SELECT s.name,
       s.setting AS value,
       s.unit,
       s.source,
       CASE WHEN s.min_val IS NOT NULL
            THEN pg_catalog.concat(s.min_val, ' to ', s.max_val)
            WHEN s.vartype OPERATOR(pg_catalog.=) 'bool' THEN 'on, off'
       END AS range
  FROM pg_catalog.pg_settings s
 WHERE pg_catalog.starts_with(s.name, 'taskq.')
   -- the function loads the library, so that its settings are known
   AND taskq.state_name(@STATE_PENDING@::smallint) IS NOT NULL;
COMMENT ON VIEW taskq.settings IS 'Settings of the extension';

CREATE VIEW taskq.documents WITH (security_barrier) AS
SELECT d.namespace COLLATE "default" AS namespace,
       d.key COLLATE "default" AS key,
       d.secondary_key COLLATE "default" AS secondary_key,
       d.doc_id,
       d.version,
       taskq.contents(coalesce(q.queue_id, 0), d.content) AS content,
       d.worker,
       d.lease_until
  FROM taskq.doc d
  LEFT JOIN taskq.queue q ON q.name OPERATOR(pg_catalog.=) d.namespace
 WHERE taskq.may_read(coalesce(q.queue_id, 0));
COMMENT ON VIEW taskq.documents IS
    'Documents that current_user may read: if the namespace is the name of a queue, the privilege on that queue is required, otherwise on all queues';
