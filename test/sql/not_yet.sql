--
-- not_yet: what the contract names and this version does not do
--
SELECT taskq_create_queue('n');
SELECT c, t.try('SELECT * FROM ' || c)
  FROM unnest(ARRAY[
    'taskq_submit(''n'', key => ''k'', insertion => ''supersede'')',
    'taskq_submit(''n'', key => ''k'', insertion => ''replace'')',
    'taskq_submit(''n'', key => ''k'', insertion => ''delete'')',
    'taskq_submit_many(''n'', ''{1}'', insertion => ''delete'')'
    ]) c;
SELECT o, t.try(format('SELECT taskq_alter_queue(''n'', %L)', o)),
       t.code(format('SELECT taskq_create_queue(''n2'', %L)', o)) AS create,
       t.code(format('SELECT taskq_alter_queue(''*'', %L)', o)) AS all
  FROM unnest(ARRAY[
    '{"max_running_per_key": 1}', '{"executor": {}}',
    '{"key_policy": "serial"}', '{"key_policy": "serial_hold_on_failure"}', '{"key_policy": "serial_until_success"}']) o;
-- what means "off" is accepted
SELECT o, t.try(format('SELECT taskq_alter_queue(''n'', %L)', o))
  FROM unnest(ARRAY[
    '{"max_running_per_key": null}', '{"key_policy": "none"}', '{"executor": null}']) o;
SELECT taskq_submit('n', key => 'k', insertion => 'append', on_conflict => 'error') > 0 AS submitted;
SELECT count(*) FROM taskq_claim('n', wait => '0');
SELECT taskq_register('w', bound => false, keep => false);
SELECT taskq_deregister('w');
-- nothing of it was half done
SELECT queue, options FROM taskq.queues;
SELECT count(*) FROM taskq.tasks;
-- a bad value of an option of later versions
SELECT o, t.code(format('SELECT taskq_alter_queue(''n'', %L)', o)) IN ('0A000', 'TQ004') AS refused
  FROM unnest(ARRAY['{"max_running_per_key": -1}', '{"key_policy": "x"}']) o;
SELECT taskq_drop_queue('n', true);
