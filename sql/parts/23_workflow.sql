/*
 * 23_workflow: templates of workflows, their instances, edges, signals and
 * timers.
 *
 * A step is a task: a row of taskq.task with workflow_id and step_id.  An edge
 * exists while its parent has not finished; flow/instance/edge.c describes
 * edges.
 */
CREATE SEQUENCE taskq.template_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.template_id_seq IS 'Numbers of templates, in the order in which they were defined';

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
COMMENT ON COLUMN taskq.template.namespace IS 'Namespace in which its name is unique';
COMMENT ON COLUMN taskq.template.name IS 'Name of the workflow';
COMMENT ON COLUMN taskq.template.version IS 'Version';
COMMENT ON COLUMN taskq.template.definition IS 'Definition given to taskq_define_workflow';
COMMENT ON COLUMN taskq.template.defined_by IS 'Role that defined it';
COMMENT ON COLUMN taskq.template.defined_at IS 'When it was defined';
COMMENT ON COLUMN taskq.template.undefined_at IS 'When it was undefined; the row remains while it has instances';
COMMENT ON CONSTRAINT template_pkey ON taskq.template IS 'A template by its number';
CREATE UNIQUE INDEX template_name_idx ON taskq.template (namespace, name, version) WHERE undefined_at IS NULL;
COMMENT ON INDEX taskq.template_name_idx IS 'One definition of a version';

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
COMMENT ON COLUMN taskq.workflow.workflow_id IS 'Drawn from the sequence of task ids';
COMMENT ON COLUMN taskq.workflow.template_id IS 'Template of the instance';
COMMENT ON COLUMN taskq.workflow.state IS '0: computed from its steps; 1 done, 2 resolved, 3 error, 4 cancelled, 5 compensating';
COMMENT ON COLUMN taskq.workflow.priority IS 'Priority of steps that have none of their own';
COMMENT ON COLUMN taskq.workflow.started_by IS 'Role that started it';
COMMENT ON COLUMN taskq.workflow.created_at IS 'When it was started';
COMMENT ON COLUMN taskq.workflow.finished_at IS 'When it ended';
COMMENT ON COLUMN taskq.workflow.expires_at IS 'When it may be removed, with its steps; null while it is live, -infinity while it is being removed';
COMMENT ON COLUMN taskq.workflow.run_at IS 'Time before which it does not begin; null: immediately';
COMMENT ON COLUMN taskq.workflow.parent_id IS 'Instance that has started it';
COMMENT ON COLUMN taskq.workflow.parent_task_id IS 'Step of that instance that waits for it';
COMMENT ON COLUMN taskq.workflow.depth IS 'Number of outer instances';
COMMENT ON COLUMN taskq.workflow.identity IS 'Hash of its identity: a second instance with the same one is a duplicate';
COMMENT ON COLUMN taskq.workflow.key IS 'Key given at its start';
COMMENT ON COLUMN taskq.workflow.correlation_id IS 'Inherited by its steps';
COMMENT ON COLUMN taskq.workflow.parent_correlation_id IS 'Correlation id of its cause';
COMMENT ON COLUMN taskq.workflow.input IS 'Input';
COMMENT ON COLUMN taskq.workflow.headers IS 'Metadata of the input';
COMMENT ON COLUMN taskq.workflow.result IS 'Result';
COMMENT ON COLUMN taskq.workflow.message IS 'Reason given for the cancellation';
COMMENT ON COLUMN taskq.workflow.reason IS 'Reason of its end, if its steps do not have it';
COMMENT ON COLUMN taskq.workflow.compensations IS 'Steps to be compensated, in this order; null: it does not compensate';
COMMENT ON CONSTRAINT workflow_pkey ON taskq.workflow IS 'An instance by its number';
CREATE UNIQUE INDEX workflow_identity_idx ON taskq.workflow (identity) WHERE identity IS NOT NULL;
COMMENT ON INDEX taskq.workflow_identity_idx IS 'One instance of an identity';
CREATE INDEX workflow_template_idx ON taskq.workflow (template_id, workflow_id);
COMMENT ON INDEX taskq.workflow_template_idx IS 'Instances of a template';
CREATE INDEX workflow_expires_idx ON taskq.workflow (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON INDEX taskq.workflow_expires_idx IS 'The retention duty';
CREATE INDEX workflow_parent_idx ON taskq.workflow (parent_task_id, workflow_id) WHERE parent_task_id IS NOT NULL;
COMMENT ON INDEX taskq.workflow_parent_idx IS 'Instances that a step has waited for';
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
COMMENT ON COLUMN taskq.edge.child IS 'Step that waits; -1: the end of the instance, -2: its failure, -3: what a failure has cancelled';
COMMENT ON COLUMN taskq.edge.parent IS 'Step that has not finished; for -2 a step that has failed; for -3 the index of a batch, or -1 for all steps';
COMMENT ON CONSTRAINT edge_pkey ON taskq.edge IS 'What a step still waits for';

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
COMMENT ON COLUMN taskq.signal.step_id IS 'Step that waits for it, has received it, or will find it';
COMMENT ON COLUMN taskq.signal.payload IS 'Payload of the signal';
COMMENT ON COLUMN taskq.signal.sent_by IS 'Role that sent it';
COMMENT ON COLUMN taskq.signal.sent_at IS 'When it was sent';
COMMENT ON CONSTRAINT signal_pkey ON taskq.signal IS 'The first one counts';

CREATE TABLE taskq.timer (
    at timestamp with time zone NOT NULL,
    task_id bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT timer_pkey PRIMARY KEY (at, task_id, since)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000
);
COMMENT ON TABLE taskq.timer IS 'Timeouts of waiting steps, and times at which steps try again to start their instance';
COMMENT ON COLUMN taskq.timer.at IS 'Time of the timeout, or of the next try';
COMMENT ON COLUMN taskq.timer.task_id IS 'The step';
COMMENT ON COLUMN taskq.timer.since IS 'Start of the suspension to which the timer belongs; if that has ended, the timer has no effect';
COMMENT ON CONSTRAINT timer_pkey ON taskq.timer IS 'What is due next';
CREATE INDEX timer_task_idx ON taskq.timer (task_id);
COMMENT ON INDEX taskq.timer_task_idx IS 'Timers of a step that is waiting or being removed';
