-- The notices about queues that do not exist.
SET client_min_messages = notice;
SELECT taskq_create_queue('told', '{"max_attempts": 1, "dead_letter_queue": "told-dead"}');
SELECT taskq_submit('told') AS first \gset
-- a submit that creates a queue reports it, in every call
SELECT taskq_submit('tolld') > 0;
SELECT taskq_submit('tolld') > 0;
SELECT count(*) FROM taskq_submit_tasks('[{"queue": "told-a"}, {"queue": "told"}, {"queue": "told-b"}, {"queue": "told-a"}]');
SELECT count(*) FROM taskq_submit_many('told-many', '{1,2}');
SELECT taskq_update_task(:first, '{"queue": "told-moved"}');
SELECT taskq_update_task(:first, '{"queue": "told"}');
-- a payload given as the queue
SELECT taskq_submit('{"a": 1}') > 0;
SELECT taskq_submit(' ["a"]') > 0;
SELECT taskq_submit(E'{\n"a": 1}') > 0;
SELECT taskq_submit(jsonb_build_object('a', repeat('x', 200))::text) > 0;
-- not for calls by the extension itself
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('told');
SELECT queue, pending FROM taskq.queues WHERE queue LIKE 'told%' ORDER BY queue;
-- a claim reports it once a session
SELECT count(*) FROM taskq_claim('unknown');
SELECT count(*) FROM taskq_claim('unknown');
SELECT count(*) FROM taskq_claim('unheard of');
\c
SET client_min_messages = notice;
CALL taskq_wait('unknown', '0');
CALL taskq_wait('unknown', '0');
\c
SET client_min_messages = notice;
SELECT count(*) FROM taskq_claim_one('teller', '{unknown}', '1 min');
SELECT count(*) FROM taskq_claim('unknown');
-- when queues are not created, it is an error
SET taskq.auto_create_queues = off;
SELECT taskq_submit('tolled');
SELECT taskq_submit('{"b": 1}');
SELECT count(*) FROM taskq_claim('unknown');
RESET taskq.auto_create_queues;
