/*
 * 52_check_flow: do steps, edges and instances of workflows agree?
 *
 * Each table is read once; flow/view/check_template.c returns the steps of the
 * templates.  Expired instances are left out, because the retention duty
 * removes them in several transactions.
 */
CREATE FUNCTION taskq.template_form()
    RETURNS TABLE (template_id integer, place integer, type text,
        comes_first boolean, ends boolean, excused boolean,
        has_time boolean, children integer[], signal text, continues boolean)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_template_form';
COMMENT ON FUNCTION taskq.template_form() IS
    'Steps of all templates, with which taskq_check() compares instances; place is null if the template cannot be read';

CREATE VIEW taskq.flow_problem AS
WITH form AS MATERIALIZED (SELECT * FROM taskq.template_form()),
flow AS MATERIALIZED (
    SELECT w.workflow_id, w.template_id, w.state, w.parent_task_id
      FROM taskq.workflow w
     WHERE w.expires_at IS NULL OR w.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()),
part AS (
    SELECT t.workflow_id, t.step_id, t.task_id, t.state, t.reason,
           (t.flags OPERATOR(pg_catalog.&) 8::smallint) OPERATOR(pg_catalog.<>) 0 AS in_line, t.suspended_at, t.cancel_requested_at,
           t.state IN (@STATE_BLOCKED@, @STATE_PENDING@) AND t.token OPERATOR(pg_catalog.=) 0 AS waits_to_begin
      FROM taskq.task t
     WHERE t.workflow_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM taskq.workflow w
                        WHERE w.workflow_id OPERATOR(pg_catalog.=) t.workflow_id AND t.step_id OPERATOR(pg_catalog.<) 0
                          AND (t.step_id OPERATOR(pg_catalog.&) 2147483647) OPERATOR(pg_catalog.=) ANY (w.compensations))
     UNION ALL
    SELECT a.workflow_id, a.step_id, a.task_id, a.state, a.reason, false, NULL, NULL, false
      FROM taskq.archive a
     WHERE a.workflow_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM taskq.workflow w
                        WHERE w.workflow_id OPERATOR(pg_catalog.=) a.workflow_id AND a.step_id OPERATOR(pg_catalog.<) 0
                          AND (a.step_id OPERATOR(pg_catalog.&) 2147483647) OPERATOR(pg_catalog.=) ANY (w.compensations))),
step AS MATERIALIZED (
    SELECT p.*, w.state AS flow_state, w.template_id, f.place, f.type, f.ends,
           f.excused, f.has_time, f.children, f.signal, f.continues AND p.state OPERATOR(pg_catalog.=) @STATE_DEAD@ AS passes,
           p.state IN (@STATE_DONE@, @STATE_FILTERED@) OR (p.state OPERATOR(pg_catalog.=) @STATE_DEAD@ AND f.excused) AS succeeded,
           p.state IN (@STATE_CANCELLED@, @STATE_REDUNDANT@, @STATE_RECREATED@) OR (p.state OPERATOR(pg_catalog.=) @STATE_DEAD@ AND NOT f.excused) AS failed,
           p.state IN (@STATE_PENDING@, @STATE_RUNNING@, @STATE_SUSPENDED@) OR p.in_line AS goes_on
      FROM part p
      LEFT JOIN flow w ON w.workflow_id OPERATOR(pg_catalog.=) p.workflow_id
      LEFT JOIN form f ON f.template_id OPERATOR(pg_catalog.=) w.template_id
       AND f.place OPERATOR(pg_catalog.=) (p.step_id OPERATOR(pg_catalog.&) 16383)
       AND ((p.step_id OPERATOR(pg_catalog.>>) 14) OPERATOR(pg_catalog.>) 0) OPERATOR(pg_catalog.=) (f.type OPERATOR(pg_catalog.=) 'batch_worker')),
edge AS MATERIALIZED (
    SELECT e.workflow_id, e.child, e.parent, w.state AS flow_state, w.template_id
      FROM taskq.edge e JOIN flow w ON w.workflow_id OPERATOR(pg_catalog.=) e.workflow_id)
SELECT 'template cannot be read' AS problem,
       pg_catalog.concat('template ', f.template_id) AS detail
  FROM form f
 WHERE f.place IS NULL
UNION ALL
/* Steps */
SELECT 'step has no workflow', pg_catalog.concat('task ', s.task_id)
  FROM step s
 WHERE s.flow_state IS NULL
   AND NOT EXISTS (SELECT FROM taskq.workflow w WHERE w.workflow_id OPERATOR(pg_catalog.=) s.workflow_id)
UNION ALL
SELECT 'step is not one of its workflow', pg_catalog.concat('task ', s.task_id)
  FROM step s
 WHERE s.flow_state IS NOT NULL AND s.place IS NULL
   AND NOT EXISTS (SELECT FROM form f WHERE f.template_id OPERATOR(pg_catalog.=) s.template_id AND f.place IS NULL)
UNION ALL
SELECT 'two tasks are one step',
       pg_catalog.concat('tasks ', pg_catalog.min(s.task_id), ' and ', pg_catalog.max(s.task_id))
  FROM step s
 GROUP BY s.workflow_id, s.step_id
HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1
UNION ALL
SELECT 'workflow lacks a step that it begins with',
       pg_catalog.concat('workflow ', w.workflow_id, ', step ', f.place)
  FROM flow w
  JOIN form f ON f.template_id OPERATOR(pg_catalog.=) w.template_id AND f.comes_first
  LEFT JOIN step s ON s.workflow_id OPERATOR(pg_catalog.=) w.workflow_id AND s.step_id OPERATOR(pg_catalog.=) f.place
 WHERE w.state OPERATOR(pg_catalog.=) @FLOW_LIVE@ AND s.task_id IS NULL
UNION ALL
SELECT 'finished step may be removed before its workflow', pg_catalog.concat('task ', a.task_id)
  FROM taskq.archive a
 WHERE a.workflow_id IS NOT NULL AND a.bucket OPERATOR(pg_catalog.<>) 16
UNION ALL
SELECT 'blocked step waits for nothing', pg_catalog.concat('task ', s.task_id)
  FROM step s
  LEFT JOIN edge e ON e.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND e.child OPERATOR(pg_catalog.=) s.step_id
 WHERE s.state OPERATOR(pg_catalog.=) @STATE_BLOCKED@ AND NOT s.in_line AND s.flow_state IN (@FLOW_LIVE@, @FLOW_ERROR@) AND e.parent IS NULL
UNION ALL
SELECT DISTINCT 'step does not wait for a step that it depends on', pg_catalog.concat('task ', s.task_id)
  FROM step s
  JOIN edge e ON e.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND e.child OPERATOR(pg_catalog.=) s.step_id
 WHERE (s.state IN (@STATE_PENDING@, @STATE_RUNNING@)
        OR (s.state OPERATOR(pg_catalog.=) @STATE_SUSPENDED@ AND s.reason OPERATOR(pg_catalog.=) @REASON_NONE@ AND s.type IN ('workflow', 'signal', 'approval', 'timer')))
   AND s.flow_state IN (@FLOW_LIVE@, @FLOW_ERROR@)
UNION ALL
/* Edges */
SELECT 'edge has no workflow', pg_catalog.concat('workflow ', e.workflow_id)
  FROM taskq.edge e
 WHERE NOT EXISTS (SELECT FROM taskq.workflow w WHERE w.workflow_id OPERATOR(pg_catalog.=) e.workflow_id)
UNION ALL
SELECT 'edge has an invalid parent or child',
       pg_catalog.concat('workflow ', e.workflow_id, ', from ', e.parent, ' to ', e.child)
  FROM edge e
  LEFT JOIN form p ON p.template_id OPERATOR(pg_catalog.=) e.template_id AND p.place OPERATOR(pg_catalog.=) (e.parent OPERATOR(pg_catalog.&) 16383)
 WHERE (e.child OPERATOR(pg_catalog.<>) -3 OR e.parent OPERATOR(pg_catalog.<>) -1)
   AND (e.parent OPERATOR(pg_catalog.<) 0 OR e.child OPERATOR(pg_catalog.<) -3 OR p.place IS NULL
        OR (e.child OPERATOR(pg_catalog.=) -3 AND p.type OPERATOR(pg_catalog.<>) 'batch_worker')
        OR (e.child >= 0 AND NOT (e.child OPERATOR(pg_catalog.=) ANY (p.children))))
UNION ALL
SELECT 'edge of a step that has ended remains',
       pg_catalog.concat('task ', s.task_id, ', to ', e.child)
  FROM step s
  JOIN edge e ON e.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND e.parent OPERATOR(pg_catalog.=) s.step_id
 WHERE ((s.succeeded AND e.child >= -1) OR (s.passes AND e.child >= 0)) AND s.flow_state OPERATOR(pg_catalog.<>) @FLOW_CANCELLED@
UNION ALL
SELECT 'edge of a step that has not ended is missing',
       pg_catalog.concat('task ', s.task_id, ', to ', c.child)
  FROM step s
 CROSS JOIN LATERAL (SELECT pg_catalog.unnest(s.children) AS child WHERE NOT s.passes
                      UNION ALL SELECT -1 WHERE s.ends) c
  LEFT JOIN edge e ON e.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND e.child OPERATOR(pg_catalog.=) c.child AND e.parent OPERATOR(pg_catalog.=) s.step_id
 WHERE NOT s.succeeded AND s.flow_state IN (@FLOW_LIVE@, @FLOW_ERROR@) AND e.parent IS NULL
UNION ALL
SELECT 'failure is recorded for a step that has not failed',
       pg_catalog.concat('workflow ', e.workflow_id, ', step ', e.parent)
  FROM edge e
  LEFT JOIN step s ON s.workflow_id OPERATOR(pg_catalog.=) e.workflow_id AND s.step_id OPERATOR(pg_catalog.=) e.parent AND s.failed
 WHERE e.child OPERATOR(pg_catalog.=) -2 AND s.task_id IS NULL AND e.flow_state OPERATOR(pg_catalog.<>) @FLOW_CANCELLED@
UNION ALL
SELECT 'step has not begun, although a failure has cancelled all such steps', pg_catalog.concat('task ', s.task_id)
  FROM step s
  JOIN edge e ON e.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND e.child OPERATOR(pg_catalog.=) -3
   AND e.parent IN (-1, s.place)
 WHERE s.waits_to_begin AND s.flow_state OPERATOR(pg_catalog.=) @FLOW_LIVE@
UNION ALL
SELECT 'failure of a step is not recorded', pg_catalog.concat('task ', s.task_id)
  FROM step s
  LEFT JOIN edge e ON e.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND e.child OPERATOR(pg_catalog.=) -2 AND e.parent OPERATOR(pg_catalog.=) s.step_id
 WHERE s.failed AND s.flow_state IN (@FLOW_LIVE@, @FLOW_ERROR@) AND e.parent IS NULL
UNION ALL
/* Instances, compared with their steps */
SELECT p.problem, pg_catalog.concat('workflow ', w.workflow_id)
  FROM flow w
  LEFT JOIN (SELECT s.workflow_id,
                    pg_catalog.bool_or(s.goes_on) AS goes_on,
                    pg_catalog.bool_or(s.state OPERATOR(pg_catalog.<) @STATE_FIRST_FINISHED@) AS lives,
                    pg_catalog.bool_or(s.state OPERATOR(pg_catalog.<) @STATE_FIRST_FINISHED@ AND (s.state OPERATOR(pg_catalog.<>) @STATE_RUNNING@ OR s.cancel_requested_at IS NULL)) AS stays,
                    pg_catalog.bool_or(s.failed) AS failed,
                    pg_catalog.bool_or(s.state OPERATOR(pg_catalog.=) @STATE_DONE@ AND s.reason OPERATOR(pg_catalog.=) @REASON_MANUAL@) AS resolved
               FROM step s GROUP BY s.workflow_id) t ON t.workflow_id OPERATOR(pg_catalog.=) w.workflow_id
 CROSS JOIN LATERAL (
    SELECT 'workflow is live, but none of its steps is' AS problem
     WHERE w.state OPERATOR(pg_catalog.=) @FLOW_LIVE@ AND t.goes_on IS NOT TRUE
    UNION ALL
    SELECT 'workflow has ended, but one of its steps is live'
     WHERE (w.state IN (@FLOW_DONE@, @FLOW_RESOLVED@) AND t.lives) OR (w.state OPERATOR(pg_catalog.=) @FLOW_ERROR@ AND t.goes_on) OR (w.state OPERATOR(pg_catalog.=) @FLOW_CANCELLED@ AND t.stays)
    UNION ALL
    SELECT 'workflow is in error, but no step has failed'
     WHERE w.state OPERATOR(pg_catalog.=) @FLOW_ERROR@ AND t.failed IS NOT TRUE
    UNION ALL
    SELECT 'workflow has completed, but a step has failed'
     WHERE w.state IN (@FLOW_DONE@, @FLOW_RESOLVED@) AND t.failed
    UNION ALL
    SELECT 'workflow is resolved or done, contrary to its steps'
     WHERE w.state IN (@FLOW_DONE@, @FLOW_RESOLVED@) AND (w.state OPERATOR(pg_catalog.=) @FLOW_RESOLVED@) OPERATOR(pg_catalog.<>) coalesce(t.resolved, false)) p
UNION ALL
/* Instances, each by its own row */
SELECT p.problem, pg_catalog.concat('workflow ', w.workflow_id)
  FROM taskq.workflow w
 CROSS JOIN LATERAL (
    SELECT 'workflow has an unknown state' AS problem
     WHERE w.state NOT BETWEEN @FLOW_LIVE@ AND @FLOW_COMPENSATING@
    UNION ALL
    SELECT 'end of the workflow does not match its state'
     WHERE (w.state IN (@FLOW_LIVE@, @FLOW_COMPENSATING@)) OPERATOR(pg_catalog.<>) (w.finished_at IS NULL) OR (w.state IN (@FLOW_LIVE@, @FLOW_COMPENSATING@)) OPERATOR(pg_catalog.<>) (w.expires_at IS NULL)
        OR (w.state IN (@FLOW_LIVE@, @FLOW_COMPENSATING@) AND (w.result IS NOT NULL OR w.reason OPERATOR(pg_catalog.<>) @REASON_NONE@))
        OR NOT pg_catalog.isfinite(w.finished_at) OR NOT pg_catalog.isfinite(w.created_at)
    UNION ALL
    SELECT 'workflow is compensating, but no compensation is live'
     WHERE w.state OPERATOR(pg_catalog.=) @FLOW_COMPENSATING@
       AND NOT EXISTS (SELECT FROM taskq.task c WHERE c.workflow_id OPERATOR(pg_catalog.=) w.workflow_id AND c.step_id OPERATOR(pg_catalog.<) 0)
    UNION ALL
    SELECT 'workflow has an unknown template'
     WHERE w.template_id NOT IN (SELECT t.template_id FROM taskq.template t)
    UNION ALL
    SELECT 'workflow has an unknown role'
     WHERE w.started_by NOT IN (SELECT r.role_id FROM taskq.role r)
    UNION ALL
    SELECT 'workflow has an unknown reason'
     WHERE w.reason OPERATOR(pg_catalog.<>) @REASON_NONE@ AND taskq.reason_name(w.reason) IS NULL) p
UNION ALL
/* Signals, timers and instances for which steps without a worker wait */
SELECT 'step waits for a workflow that is not live', pg_catalog.concat('task ', s.task_id)
  FROM step s
 WHERE s.state OPERATOR(pg_catalog.=) @STATE_SUSPENDED@ AND s.reason OPERATOR(pg_catalog.=) @REASON_NONE@ AND s.type OPERATOR(pg_catalog.=) 'workflow'
   AND NOT EXISTS (SELECT FROM flow w WHERE w.parent_task_id OPERATOR(pg_catalog.=) s.task_id AND w.state IN (@FLOW_LIVE@, @FLOW_COMPENSATING@))
   AND NOT EXISTS (SELECT FROM taskq.timer r
                    WHERE r.task_id OPERATOR(pg_catalog.=) s.task_id AND r.since OPERATOR(pg_catalog.=) s.suspended_at)
UNION ALL
SELECT 'workflow is live for a step that has failed', pg_catalog.concat('workflow ', w.workflow_id)
  FROM flow w
  JOIN step s ON s.task_id OPERATOR(pg_catalog.=) w.parent_task_id
 WHERE w.state OPERATOR(pg_catalog.=) @FLOW_LIVE@ AND s.state IN (@STATE_DEAD@, @STATE_CANCELLED@)
UNION ALL
SELECT 'step waits for a signal that has arrived', pg_catalog.concat('task ', s.task_id)
  FROM step s
  JOIN taskq.signal g ON g.workflow_id OPERATOR(pg_catalog.=) s.workflow_id AND g.step_id OPERATOR(pg_catalog.=) s.step_id
 WHERE s.state OPERATOR(pg_catalog.=) @STATE_SUSPENDED@ AND s.reason OPERATOR(pg_catalog.=) @REASON_NONE@
UNION ALL
SELECT 'signal has no workflow', pg_catalog.concat('workflow ', g.workflow_id)
  FROM taskq.signal g
 WHERE NOT EXISTS (SELECT FROM taskq.workflow w WHERE w.workflow_id OPERATOR(pg_catalog.=) g.workflow_id)
UNION ALL
SELECT 'signal is for no step of its workflow', pg_catalog.concat('workflow ', g.workflow_id)
  FROM taskq.signal g
  JOIN flow w ON w.workflow_id OPERATOR(pg_catalog.=) g.workflow_id
  LEFT JOIN form f ON f.template_id OPERATOR(pg_catalog.=) w.template_id AND f.place OPERATOR(pg_catalog.=) g.step_id
 WHERE f.signal IS NULL
UNION ALL
SELECT 'step waits for a time, but has no timer', pg_catalog.concat('task ', s.task_id)
  FROM step s
 WHERE s.state OPERATOR(pg_catalog.=) @STATE_SUSPENDED@ AND s.reason OPERATOR(pg_catalog.=) @REASON_NONE@ AND s.has_time AND s.flow_state OPERATOR(pg_catalog.=) @FLOW_LIVE@
   AND NOT EXISTS (SELECT FROM taskq.timer r
                    WHERE r.task_id OPERATOR(pg_catalog.=) s.task_id AND r.since OPERATOR(pg_catalog.=) s.suspended_at)
UNION ALL
SELECT 'timer has an invalid time', pg_catalog.concat('task ', r.task_id)
  FROM taskq.timer r
 WHERE NOT pg_catalog.isfinite(r.at) OR NOT pg_catalog.isfinite(r.since);
COMMENT ON VIEW taskq.flow_problem IS 'Disagreements between steps, edges, instances, signals and timers of workflows';
