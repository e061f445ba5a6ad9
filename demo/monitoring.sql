-- demo/monitoring.sql: load for the demo of monitoring and its test.

CREATE SCHEMA demo;
CREATE TABLE demo.load (goes_on boolean NOT NULL);
INSERT INTO demo.load VALUES (true);

SELECT taskq_create_queue('mail', '{"max_attempts": 2}');
SELECT taskq_register('mailer', '{mail}');

-- Submits and processes tasks until demo.load says otherwise.  A fifth of the
-- attempts fail.
CREATE PROCEDURE demo.work() LANGUAGE plpgsql AS $$
DECLARE
	claim record;
BEGIN
	WHILE (SELECT goes_on FROM demo.load) LOOP
		PERFORM taskq_submit_many('mail', array_fill('{}'::jsonb, ARRAY[10]));
		COMMIT;
		PERFORM taskq_heartbeat('mailer');
		FOR claim IN
			SELECT task_id, token FROM taskq_claim('mail', 'mailer', max_tasks => 20)
		LOOP
			IF random() < 0.2 THEN
				PERFORM taskq_fail(claim.task_id, claim.token, 'mailbox is full', retry_in => '1 s');
			ELSE
				PERFORM taskq_complete(claim.task_id, claim.token);
			END IF;
		END LOOP;
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END
$$;
