# shellcheck shell=bash disable=SC2034
# PgQ: events go to consumers in batches between two ticks; single events cannot
# be claimed, and one consumer takes a batch at a time.  Its daemon, pgqd, runs
# while events are inserted.

pgq_is='template single peer'

pgq_version() {
	say "PgQ $(sql postgres -c "SELECT default_version FROM pg_available_extensions WHERE name = 'pgq'"), $(pgqd -V | head -n 1)"
}

pgq_make() {
	sql "$1" -c 'CREATE EXTENSION pgq' \
		-c "SELECT pgq.create_queue('bench')" \
		-c "SELECT pgq.register_consumer('bench', 'bench')" \
		-c 'GRANT pgq_admin TO bench'
}

# a tick after every fifty events, so that a batch has fifty
pgq_fill() {
	sql "$1" -c "SET synchronous_commit = off" -c "DO \$\$ BEGIN
		FOR i IN 1 .. ceil($2 / 50.0) LOOP
			PERFORM pgq.insert_event('bench', 'task', '$PAYLOAD') FROM generate_series(1, least(50, $2 - (i - 1) * 50));
			COMMIT;
			PERFORM pgq.force_tick('bench');
			PERFORM pgq.ticker('bench');
			COMMIT;
		END LOOP; END \$\$"
}

# events after the consumer's last tick
pgq_left() {
	sql "$1" -c "SELECT count(*) FROM pgq.event_1 e, pgq.subscription s
		JOIN pgq.tick t ON t.tick_queue = s.sub_queue AND t.tick_id = s.sub_last_tick
		WHERE NOT pg_visible_in_snapshot(e.ev_txid::text::xid8, t.tick_snapshot::text::pg_snapshot)"
}

pgq_begin() {
	cat >"$work/pgqd.ini" <<-INI
		[pgqd]
		base_connstr = host=$sockets port=5432 user=postgres
		initial_database = postgres
		database_list = b_pgq
		logfile =
		pidfile =
		ticker_period = 1
	INI
	background pgqd "$work/pgqd.ini" >"$work/pgqd.log" 2>&1
	pgqd_pid=$child
}

pgq_end() { end_child "$pgqd_pid" || true; }

pgq_script() {
	case $1 in
		submit) say "SELECT pgq.insert_event('bench', 'task', :payload);" ;;
		submit100) say "SELECT count(pgq.insert_event('bench', 'task', p)) FROM unnest(:payloads::text[]) p;" ;;
		work50) cat <<-SQL ;;
			SELECT pgq.next_batch('bench', 'bench') AS batch \\gset
			SELECT 1 / (count(ev_data) = 50)::int FROM pgq.get_batch_events(:batch);
			SELECT 1 / pgq.finish_batch(:batch);
		SQL
		*) return 1 ;;
	esac
}
