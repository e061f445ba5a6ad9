--
-- not_yet: features that the contract names and this version does not have
--
SELECT taskq_create_queue('n');
SELECT o, t.try(format('SELECT taskq_alter_queue(''n'', %L)', o)),
       t.code(format('SELECT taskq_create_queue(''n2'', %L)', o)) AS create,
       t.code(format('SELECT taskq_alter_queue(''*'', %L)', o)) AS all
  FROM unnest(ARRAY['{"executor": {}}']) o;
-- a value that means "off" is accepted
SELECT o, t.try(format('SELECT taskq_alter_queue(''n'', %L)', o))
  FROM unnest(ARRAY['{"executor": null}']) o;
-- no call has had a partial effect
SELECT queue, options FROM taskq.queues;
SELECT taskq_drop_queue('n', true);
