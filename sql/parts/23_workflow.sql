/*
 * 23_workflow: templates of workflows, their instances, edges, signals and
 * timers.
 *
 * A step is a task: a row of taskq.task with workflow_id and step_id.  An edge
 * exists while its parent has not finished; flow/instance/edge.c describes
 * edges.
 */
CREATE SEQUENCE taskq.template_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.template_id_seq IS 'Numbers of taskq.template, in the order of definition';

CREATE TABLE taskq.template (
    template_id integer NOT NULL DEFAULT pg_catalog.nextval('taskq.template_id_seq'),
    namespace pg_catalog.text NOT NULL COLLATE "C",
    name pg_catalog.text NOT NULL COLLATE "C",
    version pg_catalog.text NOT NULL COLLATE "C",
    definition jsonb NOT NULL,
    defined_by integer NOT NULL,
    defined_at timestamp with time zone NOT NULL,
    undefined_at timestamp with time zone,
    CONSTRAINT template_pkey PRIMARY KEY (template_id)
);
COMMENT ON TABLE taskq.template IS 'Templates of workflows';
COMMENT ON COLUMN taskq.template.template_id IS 'Number of the template; the latest version has the highest';
COMMENT ON COLUMN taskq.template.namespace IS 'Namespace in which the name of the workflow is unique';
COMMENT ON COLUMN taskq.template.name IS 'Name of the workflow';
COMMENT ON COLUMN taskq.template.version IS 'Version';
COMMENT ON COLUMN taskq.template.definition IS 'Definition given to taskq_define_workflow';
COMMENT ON COLUMN taskq.template.defined_by IS 'Role that defined it';
COMMENT ON COLUMN taskq.template.defined_at IS 'When it was defined';
COMMENT ON COLUMN taskq.template.undefined_at IS 'When it was undefined; the row remains while it has instances';
COMMENT ON CONSTRAINT template_pkey ON taskq.template IS 'Looked up by number';
CREATE UNIQUE INDEX template_name_idx ON taskq.template (namespace, name, version) WHERE undefined_at IS NULL;
COMMENT ON INDEX taskq.template_name_idx IS 'Looked up by name and version; unique among the versions that are not undefined';

CREATE TABLE taskq.workflow (
    workflow_id bigint NOT NULL,
    template_id integer NOT NULL,
    state smallint NOT NULL,
    priority smallint,
    started_by integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    expires_at timestamp with time zone,
    run_at timestamp with time zone,
    parent_id bigint,
    parent_task_id bigint,
    depth smallint NOT NULL DEFAULT 0,
    identity bytea,
    key pg_catalog.text COLLATE "C",
    correlation_id pg_catalog.text COLLATE "C",
    parent_correlation_id pg_catalog.text COLLATE "C",
    input jsonb NOT NULL,
    headers jsonb,
    result jsonb,
    message pg_catalog.text,
    reason smallint NOT NULL DEFAULT @REASON_NONE@,
    compensations integer[],
    CONSTRAINT workflow_pkey PRIMARY KEY (workflow_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE taskq.workflow IS 'Instances of workflows';
COMMENT ON COLUMN taskq.workflow.workflow_id IS 'Number of the instance, drawn from the sequence of task ids';
COMMENT ON COLUMN taskq.workflow.template_id IS 'Template of the instance';
COMMENT ON COLUMN taskq.workflow.state IS '0: computed from its steps; 1 done, 2 resolved, 3 error, 4 cancelled, 5 compensating';
COMMENT ON COLUMN taskq.workflow.priority IS 'Priority of steps whose definition has no priority';
COMMENT ON COLUMN taskq.workflow.started_by IS 'Role that started it';
COMMENT ON COLUMN taskq.workflow.created_at IS 'When it was started';
COMMENT ON COLUMN taskq.workflow.finished_at IS 'When it ended';
COMMENT ON COLUMN taskq.workflow.expires_at IS 'When it may be removed, with its steps; null while it is live, -infinity while it is being removed';
COMMENT ON COLUMN taskq.workflow.run_at IS 'Time before which the instance does not begin; null if it begins immediately';
COMMENT ON COLUMN taskq.workflow.parent_id IS 'Instance that started it';
COMMENT ON COLUMN taskq.workflow.parent_task_id IS 'Step of that instance that waits for it';
COMMENT ON COLUMN taskq.workflow.depth IS 'Number of outer instances';
COMMENT ON COLUMN taskq.workflow.identity IS 'Hash of its identity; a second instance with the same identity is a duplicate';
COMMENT ON COLUMN taskq.workflow.key IS 'Key given at its start';
COMMENT ON COLUMN taskq.workflow.correlation_id IS 'Inherited by its steps';
COMMENT ON COLUMN taskq.workflow.parent_correlation_id IS 'Correlation id of what caused the start';
COMMENT ON COLUMN taskq.workflow.input IS 'Input';
COMMENT ON COLUMN taskq.workflow.headers IS 'Metadata of the input';
COMMENT ON COLUMN taskq.workflow.result IS 'Result';
COMMENT ON COLUMN taskq.workflow.message IS 'Reason given for the cancellation';
COMMENT ON COLUMN taskq.workflow.reason IS 'Code of the reason of its end, if that does not follow from its steps';
COMMENT ON COLUMN taskq.workflow.compensations IS 'Steps to be compensated, in this order; null if the instance does not compensate';
COMMENT ON CONSTRAINT workflow_pkey ON taskq.workflow IS 'Looked up by number';
CREATE UNIQUE INDEX workflow_identity_idx ON taskq.workflow (identity) WHERE identity IS NOT NULL;
COMMENT ON INDEX taskq.workflow_identity_idx IS 'At most one instance with an identity';
CREATE INDEX workflow_template_idx ON taskq.workflow (template_id, workflow_id);
COMMENT ON INDEX taskq.workflow_template_idx IS 'Instances of a template';
CREATE INDEX workflow_expires_idx ON taskq.workflow (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON INDEX taskq.workflow_expires_idx IS 'Instances that expire, for the retention duty';
CREATE INDEX workflow_parent_idx ON taskq.workflow (parent_task_id, workflow_id) WHERE parent_task_id IS NOT NULL;
COMMENT ON INDEX taskq.workflow_parent_idx IS 'Instances that a step started and waits or waited for';
CREATE INDEX workflow_correlation_idx ON taskq.workflow (correlation_id) WHERE correlation_id IS NOT NULL;
COMMENT ON INDEX taskq.workflow_correlation_idx IS 'Look-up by correlation id';

CREATE TABLE taskq.edge (
    workflow_id bigint NOT NULL,
    child integer NOT NULL,
    parent integer NOT NULL,
    CONSTRAINT edge_pkey PRIMARY KEY (workflow_id, child, parent)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000
);
COMMENT ON TABLE taskq.edge IS 'Dependencies between the steps of instances';
COMMENT ON COLUMN taskq.edge.workflow_id IS 'The instance';
COMMENT ON COLUMN taskq.edge.child IS 'Step that waits; -1 for the end of the instance, -2 for its failure, -3 for the steps that a failure has cancelled';
COMMENT ON COLUMN taskq.edge.parent IS 'Step that has not finished; if child is -2, a step that has failed; if child is -3, the index of a batch, or -1 for all steps';
COMMENT ON CONSTRAINT edge_pkey ON taskq.edge IS 'Looked up by instance and child: the parents for which a step still waits';

CREATE TABLE taskq.signal (
    workflow_id bigint NOT NULL,
    step_id integer NOT NULL,
    payload jsonb,
    sent_by integer NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    CONSTRAINT signal_pkey PRIMARY KEY (workflow_id, step_id)
);
COMMENT ON TABLE taskq.signal IS 'Signals sent to steps of instances, whether or not the steps have been reached';
COMMENT ON COLUMN taskq.signal.workflow_id IS 'The instance';
COMMENT ON COLUMN taskq.signal.step_id IS 'Step that has received the signal, waits for it, or will receive it when it is reached';
COMMENT ON COLUMN taskq.signal.payload IS 'Payload of the signal';
COMMENT ON COLUMN taskq.signal.sent_by IS 'Role that sent it';
COMMENT ON COLUMN taskq.signal.sent_at IS 'When it was sent';
COMMENT ON CONSTRAINT signal_pkey ON taskq.signal IS 'One signal for each step: only the first signal has an effect';

CREATE TABLE taskq.timer (
    at timestamp with time zone NOT NULL,
    task_id bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT timer_pkey PRIMARY KEY (at, task_id, since)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000
);
COMMENT ON TABLE taskq.timer IS 'Timeouts of waiting steps, and times at which steps of type workflow try again to start their instance';
COMMENT ON COLUMN taskq.timer.at IS 'Time of the timeout, or of the next try';
COMMENT ON COLUMN taskq.timer.task_id IS 'The step';
COMMENT ON COLUMN taskq.timer.since IS 'Start of the suspension to which the timer belongs; the timer has no effect once that suspension has ended';
COMMENT ON CONSTRAINT timer_pkey ON taskq.timer IS 'Timers in the order in which they become due';
CREATE INDEX timer_task_idx ON taskq.timer (task_id);
COMMENT ON INDEX taskq.timer_task_idx IS 'Timers of a step that is waiting or being removed';
