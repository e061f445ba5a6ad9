-- Handlers of the example workflows, and a worker in SQL that runs them.
--
--     psql -f examples/workflows/handlers.sql
--     psql -v definition="$(cat examples/workflows/linear.json)" \
--         <<<"SELECT taskq_define_workflow(:'definition')"
--     psql -c "SELECT taskq_start_workflow('linear', '{\"text\": \"to be or not to be\"}')"
--     psql -c "CALL example.work('examples')"
--
-- A handler is a function of the claimed step: its payload, config, input and
-- dependency_results.  It returns the step's result.
CREATE SCHEMA example;

-- Works until no task has come for a second.  A task is claimed in a
-- transaction of its own; what its handler writes is committed together with its
-- result, or not at all.
CREATE PROCEDURE example.work(queue text) LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
    result jsonb;
BEGIN
    LOOP
        SELECT * INTO c FROM taskq_claim(queue, wait => '1 s');
        COMMIT;
        EXIT WHEN c.task_id IS NULL;
        BEGIN
            EXECUTE format('SELECT example.%I($1)', c.handler) USING c INTO result;
            PERFORM taskq_complete(c.task_id, c.token, result);
        EXCEPTION
            WHEN SQLSTATE 'TQ001' THEN
                NULL;   -- another worker has it by now
            WHEN data_exception OR integrity_constraint_violation OR undefined_function THEN
                PERFORM taskq_fail(c.task_id, c.token, SQLERRM, retryable => false);
            WHEN OTHERS THEN
                PERFORM taskq_fail(c.task_id, c.token, SQLERRM);
        END;
        COMMIT;
    END LOOP;
END
$$;

-- linear.json: {"text": "…"}
CREATE FUNCTION example.tidy(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('text', lower(btrim(c.input ->> 'text')))
$$;
CREATE FUNCTION example.split(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(regexp_split_to_array(c.dependency_results #>> '{tidy,text}', '\s+'))
$$;
CREATE FUNCTION example.count_words(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('words', count(*), 'different', count(DISTINCT word))
      FROM jsonb_array_elements_text(c.dependency_results -> 'split') word
$$;
CREATE FUNCTION example.report_words(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('report', format('%s words, %s different',
        c.dependency_results #> '{count,words}', c.dependency_results #> '{count,different}'))
$$;

-- diamond.json: {"numbers": [1, 2, …]}
CREATE FUNCTION example.read_numbers(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT c.input -> 'numbers'
$$;
CREATE FUNCTION example.smallest(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(min(n::numeric)) FROM jsonb_array_elements_text(c.dependency_results -> 'read') n
$$;
CREATE FUNCTION example.largest(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(max(n::numeric)) FROM jsonb_array_elements_text(c.dependency_results -> 'read') n
$$;
CREATE FUNCTION example.range_of(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('range', (c.dependency_results -> 'largest')::numeric - (c.dependency_results -> 'smallest')::numeric)
$$;

-- tree.json: {"numbers": [1, 2, …]}
CREATE FUNCTION example.halve(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'first', coalesce(jsonb_agg(x ORDER BY n) FILTER (WHERE n <= half), '[]'),
        'last', coalesce(jsonb_agg(x ORDER BY n) FILTER (WHERE n > half), '[]'))
      FROM jsonb_array_elements(c.payload -> 'list') WITH ORDINALITY AS e (x, n),
           (SELECT jsonb_array_length(c.payload -> 'list') / 2 AS half) h
$$;
CREATE FUNCTION example.add_up(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(coalesce(sum(n::numeric), 0)) FROM jsonb_array_elements_text(c.payload -> 'list') n
$$;
CREATE FUNCTION example.add_sums(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('sum', sum(value::numeric)) FROM jsonb_each_text(c.dependency_results)
$$;

-- mixed.json: {"items": [{"price": 250, "count": 2, "grams": 100}, …]}, in cents
CREATE FUNCTION example.receive(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT c.input -> 'items'
$$;
CREATE FUNCTION example.price(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(coalesce(sum((i -> 'price')::bigint * (i -> 'count')::bigint), 0)) FROM jsonb_array_elements(c.dependency_results -> 'receive') i
$$;
CREATE FUNCTION example.weigh(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(coalesce(sum((i -> 'grams')::bigint * (i -> 'count')::bigint), 0)) FROM jsonb_array_elements(c.dependency_results -> 'receive') i
$$;
CREATE FUNCTION example.discount(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(CASE WHEN price >= (c.config -> 'from')::bigint THEN price - price * (c.config -> 'percent')::bigint / 100 ELSE price END)
      FROM (SELECT (c.dependency_results -> 'price')::bigint AS price) p
$$;
CREATE FUNCTION example.postage(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(CASE WHEN (c.dependency_results -> 'price')::bigint >= (c.config -> 'free_from')::bigint THEN 0
        ELSE 300 + (c.dependency_results -> 'weigh')::bigint / 10 END)
$$;
CREATE FUNCTION example.tax(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('net', net, 'tax', net * (c.config -> 'percent')::bigint / 100)
      FROM (SELECT (c.dependency_results -> 'discount')::bigint AS net) d
$$;
CREATE FUNCTION example.invoice(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('cents', (c.dependency_results #> '{tax,net}')::bigint
        + (c.dependency_results #> '{tax,tax}')::bigint + (c.dependency_results -> 'postage')::bigint)
$$;

-- order.json: {"order": 17, "quantity": 2, "amount": 30}
CREATE TABLE example.shipment (order_no bigint PRIMARY KEY, parcel text NOT NULL);
CREATE FUNCTION example.check_order(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('order', c.input -> 'order')
$$;
CREATE FUNCTION example.reserve(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('reserved', (c.input -> 'quantity')::int <= (c.config -> 'most')::int)
$$;
CREATE FUNCTION example.authorize_order(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('authorized', (c.input -> 'amount')::int <= (c.config -> 'most')::int)
$$;
CREATE FUNCTION example.pack(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('parcel', format('parcel %s of %s', c.input -> 'order', c.input -> 'quantity'))
$$;
CREATE FUNCTION example.ship(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    INSERT INTO example.shipment VALUES ((c.input -> 'order')::bigint, c.dependency_results #>> '{pack,parcel}')
    RETURNING jsonb_build_object('outcome', 'shipped', 'parcel', parcel)
$$;
CREATE FUNCTION example.refuse(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT '{"outcome": "refused"}'::jsonb
$$;
CREATE FUNCTION example.notify_customer(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('order', c.input -> 'order') || coalesce(c.dependency_results -> 'ship', c.dependency_results -> 'refuse')
$$;

-- payment.json: {"payment": 17, "amount": 30, "card": "good" | "refused", "busy": false}
CREATE TABLE example.payment (payment bigint PRIMARY KEY, amount bigint NOT NULL);
CREATE FUNCTION example.validate_payment(c taskq.claimed) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF (c.input -> 'amount')::bigint <= 0 THEN
        RAISE EXCEPTION 'nothing is to be paid' USING ERRCODE = 'check_violation';
    END IF;
    RETURN c.input;
END
$$;
CREATE FUNCTION example.authorize_payment(c taskq.claimed) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF c.input ->> 'card' = 'refused' THEN
        RAISE EXCEPTION 'the card was refused' USING ERRCODE = 'check_violation';
    ELSIF (c.input -> 'busy')::boolean AND c.attempt = 1 THEN
        RAISE EXCEPTION 'the bank is busy';
    END IF;
    RETURN '{"authorized": true}';
END
$$;
CREATE FUNCTION example.review_payment(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT '{"reviewed": true}'::jsonb
$$;
CREATE FUNCTION example.capture_payment(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    INSERT INTO example.payment VALUES ((c.input -> 'payment')::bigint, (c.input -> 'amount')::bigint)
    RETURNING jsonb_build_object('captured', amount, 'reviewed', c.dependency_results -> 'review' = '{"reviewed": true}')
$$;
CREATE FUNCTION example.receipt(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT c.dependency_results -> 'capture'
$$;

-- registration.json: {"customer": 17, "card": "good" | "refused", "address": "good" | "wrong"}
CREATE TABLE example.account (customer bigint PRIMARY KEY);
CREATE TABLE example.mailbox (customer bigint PRIMARY KEY, address text NOT NULL);
CREATE TABLE example.booking (customer bigint, cents bigint NOT NULL, PRIMARY KEY (customer, cents));
CREATE FUNCTION example.open_account(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    INSERT INTO example.account VALUES ((c.input -> 'customer')::bigint) RETURNING jsonb_build_object('account', customer)
$$;
CREATE FUNCTION example.make_mailbox(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    INSERT INTO example.mailbox VALUES ((c.dependency_results #> '{account,account}')::bigint, format('c%s@example.com', c.input -> 'customer'))
    RETURNING jsonb_build_object('address', address)
$$;
CREATE FUNCTION example.subscribe(c taskq.claimed) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF c.input ->> 'card' = 'refused' THEN
        RAISE EXCEPTION 'the card was refused' USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO example.booking VALUES ((c.input -> 'customer')::bigint, (c.config -> 'cents')::bigint);
    RETURN jsonb_build_object('paid', c.config -> 'cents');
END
$$;
CREATE FUNCTION example.welcome(c taskq.claimed) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF c.input ->> 'address' = 'wrong' THEN
        RAISE EXCEPTION 'the letter came back';
    END IF;
    RETURN (c.dependency_results -> 'account') || (c.dependency_results -> 'subscribe');
END
$$;
-- the payload of a compensation is the result of its step
CREATE FUNCTION example.close_account(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    DELETE FROM example.account WHERE customer = (c.payload -> 'account')::bigint RETURNING '{"closed": true}'::jsonb
$$;
CREATE FUNCTION example.remove_mailbox(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    DELETE FROM example.mailbox WHERE address = c.payload ->> 'address' RETURNING '{"removed": true}'::jsonb
$$;
CREATE FUNCTION example.refund(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    INSERT INTO example.booking VALUES ((c.input -> 'customer')::bigint, (c.config -> 'fee')::bigint - (c.payload -> 'paid')::bigint)
    RETURNING jsonb_build_object('refunded', -cents)
$$;

-- etl.json: {"day": 17}; what there is to extract is made up
CREATE TABLE example.sale (day int, country text, cents bigint NOT NULL, PRIMARY KEY (day, country));
CREATE FUNCTION example.extract_orders(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('customer', n % 3, 'cents', n * (c.input -> 'day')::int)) FROM generate_series(1, 10) n
$$;
CREATE FUNCTION example.extract_customers(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT '[{"customer": 0, "country": "Chile"}, {"customer": 1, "country": "Kenya"}, {"customer": 2, "country": "Chile"}]'::jsonb
$$;
CREATE FUNCTION example.transform(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg(country, cents)
      FROM (SELECT p.country, sum(o.cents) AS cents
              FROM jsonb_to_recordset(c.dependency_results -> 'extract_orders') o (customer int, cents bigint)
              JOIN jsonb_to_recordset(c.dependency_results -> 'extract_customers') p (customer int, country text) USING (customer)
             GROUP BY p.country) s
$$;
CREATE FUNCTION example.check_sales(c taskq.claimed) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sum((o -> 'cents')::bigint) FROM jsonb_array_elements(c.dependency_results -> 'extract_orders') o)
        <> (SELECT sum(value::bigint) FROM jsonb_each_text(c.dependency_results -> 'transform')) THEN
        RAISE EXCEPTION 'something was lost' USING ERRCODE = 'check_violation';
    END IF;
    RETURN 'true';
END
$$;
CREATE FUNCTION example.load_sales(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    WITH loaded AS (
        INSERT INTO example.sale SELECT (c.input -> 'day')::int, key, value::bigint FROM jsonb_each_text(c.dependency_results -> 'transform')
        RETURNING cents)
    SELECT jsonb_build_object('countries', count(*), 'cents', sum(cents)) FROM loaded
$$;
CREATE FUNCTION example.report_sales(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT c.dependency_results -> 'load'
$$;

-- csv.json: {"file": "sales.csv"}; its lines are "number,goods,cents"
CREATE TABLE example.line (file text, n int, line text NOT NULL, PRIMARY KEY (file, n));
INSERT INTO example.line SELECT 'sales.csv', n, format('%s,goods %s,%s', n + 1, n % 7, n * 3) FROM generate_series(0, 999) n;
CREATE FUNCTION example.open_csv(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('total', count(*), 'size', c.config -> 'size') FROM example.line l WHERE l.file = c.input ->> 'file'
$$;
CREATE FUNCTION example.read_rows(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('rows', count(*), 'cents', coalesce(sum(split_part(l.line, ',', 3)::bigint), 0))
      FROM example.line l
     WHERE l.file = c.input ->> 'file' AND l.n >= (c.payload -> 'start')::int AND l.n < (c.payload -> 'end')::int
$$;
CREATE FUNCTION example.total_rows(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('parts', count(*), 'rows', sum((p -> 'rows')::bigint), 'cents', sum((p -> 'cents')::bigint))
      FROM jsonb_array_elements(c.dependency_results -> 'rows') p
$$;

-- approval.json: {"request": 17, "amount": 1250.50}; an approver answers with
--     SELECT taskq_signal(workflow_id, 'manager', '{"approved": true, "by": "Ann"}')
-- Roles belong to all databases, and remain when a schema is dropped.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['example_manager', 'example_finance', 'example_director'] LOOP
        IF to_regrole(name) IS NULL THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    END LOOP;
END
$$;
CREATE TABLE example.granted (request bigint PRIMARY KEY, amount numeric NOT NULL, approved_by text[] NOT NULL);
CREATE FUNCTION example.take_request(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('request', c.input -> 'request')
$$;
CREATE FUNCTION example.approve_by_rule(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    SELECT '{"approved": true, "by": "the rule"}'::jsonb
$$;
CREATE FUNCTION example.grant_request(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
    INSERT INTO example.granted
        SELECT (c.input -> 'request')::bigint, (c.input -> 'amount')::numeric, array_agg(key ORDER BY key)
          FROM jsonb_each(c.dependency_results)
         WHERE value -> 'approved' = 'true'
    RETURNING jsonb_build_object('request', request, 'approved_by', to_jsonb(approved_by))
$$;
