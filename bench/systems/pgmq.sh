# shellcheck shell=bash disable=SC2034
# pgmq, if SQL_OF_PGMQ names a file with the statements of its extension script; it
# is in no Debian package.  A claim is a read that hides the message for half a
# minute, a completion deletes it.

pgmq_is='template peer'

pgmq_version() { say "${SQL_OF_PGMQ##*/}"; }

pgmq_make() {
	[ -f "${SQL_OF_PGMQ:-}" ] || die 'SQL_OF_PGMQ must name the SQL file of pgmq'
	sql "$1" -o /dev/null -c 'CREATE SCHEMA pgmq' -f "$SQL_OF_PGMQ" \
		-c "SELECT pgmq.create('bench')" \
		-c 'GRANT USAGE ON SCHEMA pgmq TO bench' \
		-c 'GRANT ALL ON ALL TABLES IN SCHEMA pgmq TO bench' \
		-c 'GRANT ALL ON ALL SEQUENCES IN SCHEMA pgmq TO bench'
}

pgmq_fill() {
	sql "$1" -o /dev/null -c "SELECT count(*) FROM pgmq.send_batch('bench',
		array_fill('$PAYLOAD'::jsonb, ARRAY[$2]))"
}

pgmq_left() { sql "$1" -c 'SELECT count(*) FROM pgmq.q_bench'; }

pgmq_script() {
	case $1 in
		submit) say "SELECT * FROM pgmq.send('bench', :payload);" ;;
		submit100) say "SELECT * FROM pgmq.send_batch('bench', :payloads);" ;;
		submit1000) say "SELECT * FROM pgmq.send_batch('bench', $TEN_TIMES);" ;;
		work) cat <<-SQL ;;
			SELECT msg_id, message FROM pgmq.read('bench', 30, 1) \\gset
			SELECT pgmq.delete('bench', :msg_id::int8);
		SQL
		work50) cat <<-SQL ;;
			SELECT array_agg(msg_id) AS ids, count(message) AS n FROM pgmq.read('bench', 30, 50) \\gset
			SELECT 1 / (count(*) = :n::int8)::int FROM pgmq.delete('bench', :ids::int8[]);
		SQL
		*) return 1 ;;
	esac
}
