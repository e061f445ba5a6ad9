# shellcheck shell=bash disable=SC2034
# limit: the lower bound.  The same number of statements by primary key, each
# client with ids of its own, on a table without other indexes; half of each page
# is left free, so that updates do not touch the index.

limit_is=template

limit_make() {
	sql "$1" -c 'CREATE TABLE floor (id bigint PRIMARY KEY,
			state smallint NOT NULL DEFAULT 0, payload jsonb) WITH (fillfactor = 50)' \
		-c 'CREATE TABLE entry (id bigint PRIMARY KEY,
			state smallint NOT NULL DEFAULT 0, payload jsonb)' \
		-c 'GRANT ALL ON floor, entry TO bench'
}

limit_fill() {
	sql "$1" -c "INSERT INTO floor (id, payload)
		SELECT i, '$PAYLOAD' FROM generate_series(1, $2) i"
}

limit_left() { sql "$1" -c 'SELECT count(*) FROM (SELECT FROM floor UNION ALL SELECT FROM entry) t'; }

# Each client has tasks of its own: n counts its runs.  No single call completes
# and claims, so "again" is the same as "work".
limit_script() {
	local next='\set n :n + 1'
	case $1 in
		submit) cat <<-SQL ;;
			$next
			\\set id :n * :clients + :client_id
			INSERT INTO entry (id, payload) VALUES (:id, :payload) RETURNING id;
		SQL
		submit100) cat <<-SQL ;;
			$next
			\\set id (:n * :clients + :client_id) * 100
			INSERT INTO entry (id, payload) SELECT :id::int8 + i, p FROM unnest(:payloads::jsonb[]) WITH ORDINALITY AS u (p, i) RETURNING id;
		SQL
		submit1000) cat <<-SQL ;;
			$next
			\\set id (:n * :clients + :client_id) * 1000
			INSERT INTO entry (id, payload) SELECT :id::int8 + i, p FROM unnest($TEN_TIMES) WITH ORDINALITY AS u (p, i) RETURNING id;
		SQL
		work | again) cat <<-SQL ;;
			\\set id :n * :clients + :client_id + 1
			$next
			UPDATE floor SET state = 1 WHERE id = :id RETURNING id, payload \\gset
			DELETE FROM floor WHERE id = :id;
		SQL
		work50) cat <<-SQL ;;
			\\set id (:n * :clients + :client_id) * 50 + 1
			$next
			WITH t AS (UPDATE floor SET state = 1 WHERE id >= :id AND id < :id::int8 + 50 RETURNING id, payload) SELECT array_agg(id) AS ids, count(payload) AS n50, 1 / (count(*) = 50)::int AS good FROM t \\gset
			DELETE FROM floor WHERE id = ANY (:ids);
		SQL
		*) return 1 ;;
	esac
}
