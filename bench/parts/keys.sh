# shellcheck shell=bash
# keys: tasks that wait for others of their key, and insertions that touch them

part_keys() {
	local round name
	[ -n "$(chosen taskq)" ] || return 0
	name="claim + complete, $(clients "$KEY_CLIENTS")"
	for round in $(seq "$ROUNDS"); do
		keys_round "$name, without a policy" none "$round"
		keys_round "$name, serial, $KEYS keys of $KEY_TASKS" serial "$round"
		keys_behind "$name" "$round"
		keys_insertion submit append "$round"
		keys_insertion 'submit that supersedes' supersede "$round"
		keys_junction 100 "$round"
		keys_junction "$KEY_JUNCTION" "$round"
		keys_release "$round"
		keys_changes "$round"
	done
	aim "serial, $KEYS keys of $KEY_TASKS tasks, $(clients "$KEY_CLIENTS")" \
		"$name, serial, $KEYS keys of $KEY_TASKS|taskq|tasks/s" '>=' 0.7 \
		"$name, without a policy|taskq|tasks/s"
	aim "$KEY_BEHIND tasks waiting behind one key" \
		"$name, $KEY_BEHIND waiting behind one key|taskq|tasks/s" '>=' 0.95 \
		"$name, serial, none waiting|taskq|tasks/s"
	aim 'superseding the waiting task of a key' \
		"submit that supersedes, $(clients "$KEY_CLIENTS")|taskq|tasks/s" '>=' 0.6 \
		"submit, $(clients "$KEY_CLIENTS")|taskq|tasks/s"
	aim 'junction of 100 keys, ms' 'junction of 100 keys|taskq|ms' '<=' 5
	aim "junction of $KEY_JUNCTION keys, ms" "junction of $KEY_JUNCTION keys|taskq|ms" '<=' 200
	aim 'a change with one add and one delete, of the same by hand' \
		"change, $(clients "$KEY_CLIENTS")|taskq|tasks/s" '>=' 0.7 \
		"submit and cancel in a transaction, $(clients "$KEY_CLIENTS")|taskq|tasks/s"
	aim "a release with $KEY_BEHIND tasks behind it" \
		"complete, $KEY_BEHIND tasks behind|taskq|tasks/s" '>=' 0.95 \
		'complete, 10 tasks behind|taskq|tasks/s'
}

# keys_queue OPTIONS
keys_queue() {
	sql b_taskq -o /dev/null -c "SELECT taskq_alter_queue('bench', '$1')"
}

# keys_fill KEYS TASKS: the first tasks of all keys before the second tasks
keys_fill() {
	sql b_taskq -o /dev/null -c "SELECT count(*) FROM generate_series(1, $2) n,
		taskq_submit_tasks((SELECT jsonb_agg(jsonb_build_object('queue', 'bench', 'key', 'key ' || k, 'payload', '$PAYLOAD'::jsonb))
			FROM generate_series(1, $1) k WHERE n > 0))" -c 'VACUUM ANALYZE'
}

# keys_round SCENARIO WHAT ROUND
keys_round() {
	fresh taskq 0
	[ "$2" = none ] || keys_queue '{"key_policy": "serial"}'
	keys_fill "$KEYS" "$KEY_TASKS"
	measure "$1" work "$KEY_CLIENTS" taskq "$3"
}

# keys_behind NAME ROUND: the same tasks with and without others that wait, one
# round after the other, in either order
keys_behind() {
	local waiting order="0 $KEY_BEHIND"
	[ $(($2 % 2)) = 1 ] || order="$KEY_BEHIND 0"
	for waiting in $order; do
		fresh taskq 0
		keys_queue '{"key_policy": "serial"}'
		[ "$waiting" = 0 ] || sql b_taskq -o /dev/null -c "SELECT count(*) FROM taskq_submit_many('bench',
			array_fill('$PAYLOAD'::jsonb, ARRAY[$waiting + 1]), key => 'one', delay => '1 d')"
		taskq_fill b_taskq "$((KEYS * KEY_TASKS))"
		if [ "$waiting" = 0 ]; then
			measure "$1, serial, none waiting" work "$KEY_CLIENTS" taskq "$2"
		else
			measure "$1, $waiting waiting behind one key" work "$KEY_CLIENTS" taskq "$2"
		fi
	done
}

# keys_insertion NAME INSERTION ROUND: each client has keys of its own
keys_insertion() {
	fresh taskq 0
	cat >"$work/taskq.insert_$2.sql" <<-SQL
		\\set k random(1, 100)
		SELECT taskq_submit('bench', :payload, key => 'key ' || :client_id || ' ' || :k, insertion => '$2');
	SQL
	measure "$1, $(clients "$KEY_CLIENTS")" "insert_$2" "$KEY_CLIENTS" taskq "$3"
}

# keys_timed STATEMENT BEFORE: milliseconds of STATEMENT, after BEFORE in the same
# session
keys_timed() {
	sql b_taskq <<-SQL | tail -n 1
		$2 \\g /dev/null
		SELECT clock_timestamp() AS at \\gset
		$1 \\g /dev/null
		SELECT round((extract(epoch FROM clock_timestamp() - :'at') * 1000)::numeric, 2);
	SQL
}

# keys_junction KEYS ROUND
keys_junction() {
	local ms call="SELECT count(*) FROM taskq_junction('bench', (SELECT array_agg('key ' || k) FROM generate_series"
	fresh taskq 0
	sql b_taskq -o /dev/null -c "SELECT count(*) FROM taskq_submit_tasks((
		SELECT jsonb_agg(jsonb_build_object('queue', 'bench', 'key', 'key ' || k, 'suspended', true))
		  FROM generate_series(-99, $1) k))" -c 'VACUUM ANALYZE'
	ms=$(keys_timed "$call(1, $1) k))" "$call(-99, 0) k))") ||
		die "the junction of $1 keys failed"
	value "junction of $1 keys" taskq "$2" ms "$ms"
	say "   junction of $1 keys: $ms ms"
}

# keys_release ROUND: one key, one client that does not wait for the disk; the
# same with few and with many tasks behind, in either order
keys_release() {
	local behind order="10 $KEY_BEHIND"
	[ $(($1 % 2)) = 1 ] || order="$KEY_BEHIND 10"
	cat >"$work/taskq.release.sql" <<-SQL
		SELECT taskq_submit('bench', :payload, key => 'one');
		SELECT task_id, token, payload FROM taskq_claim('bench') \\gset
		SELECT taskq_complete(:task_id, :token);
	SQL
	for behind in $order; do
		fresh taskq 0
		keys_queue '{"key_policy": "serial"}'
		sql b_taskq -o /dev/null -c "SELECT count(*) FROM taskq_submit_many('bench',
			array_fill('$PAYLOAD'::jsonb, ARRAY[$behind + 1]), key => 'one')" -c 'VACUUM ANALYZE'
		PGOPTIONS='-c synchronous_commit=off' measure "complete, $behind tasks behind" release 1 taskq "$1"
	done
}

# keys_changes ROUND: a task replaces the client's last one; by taskq_change,
# and by hand
keys_changes() {
	cat >"$work/taskq.change.sql" <<-'SQL'
		\if :first
		SELECT taskq_submit('bench', :payload) AS id \gset
		\set first 0
		\else
		SELECT task_id AS id FROM taskq_change('client ' || :client_id, jsonb_build_array(jsonb_build_object('queue', 'bench', 'payload', :payload::jsonb)),
			deletes => jsonb_build_array(:id::bigint)) \gset
		\endif
	SQL
	cat >"$work/taskq.by_hand.sql" <<-'SQL'
		\if :first
		SELECT taskq_submit('bench', :payload) AS id \gset
		\set first 0
		\else
		BEGIN;
		SELECT taskq_cancel(:id::bigint);
		SELECT taskq_submit('bench', :payload) AS id \gset
		COMMIT;
		\endif
	SQL
	fresh taskq 0
	measure "change, $(clients "$KEY_CLIENTS")" change "$KEY_CLIENTS" taskq "$1"
	fresh taskq 0
	sql b_taskq -o /dev/null -c "SELECT taskq_grant('bench', 'bench', '{manage}')"
	measure "submit and cancel in a transaction, $(clients "$KEY_CLIENTS")" by_hand "$KEY_CLIENTS" taskq "$1"
}
