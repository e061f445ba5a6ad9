# shellcheck shell=bash disable=SC2034
# raw: a plain hand-written queue.  One table with a partial index, claim by
# UPDATE ... FROM a materialized SELECT ... FOR UPDATE SKIP LOCKED, complete by
# DELETE.

raw_is=template
RAW_ORDER='id'

raw_make() {
	sql "$1" -c 'CREATE TABLE raw (id bigserial PRIMARY KEY,
			state smallint NOT NULL DEFAULT 0, at timestamptz, payload jsonb)' \
		-c "CREATE INDEX ON raw ($RAW_ORDER) WHERE state = 0" \
		-c 'GRANT ALL ON raw, raw_id_seq TO bench'
}

raw_kind() { cksum <<<"$RAW_ORDER" | cut -d ' ' -f 1; }

raw_fill() {
	sql "$1" -c "INSERT INTO raw (payload) SELECT '$PAYLOAD' FROM generate_series(1, $2)"
}

raw_left() { sql "$1" -c 'SELECT count(*) FROM raw'; }

# raw_claim N WHERE...
raw_claim() {
	say "WITH c AS MATERIALIZED (SELECT id FROM raw WHERE state = 0 ${2:-} ORDER BY $RAW_ORDER LIMIT $1 FOR UPDATE SKIP LOCKED) UPDATE raw SET state = 1 FROM c WHERE raw.id = c.id RETURNING raw.id, raw.payload"
}

raw_script() {
	case $1 in
		submit) say 'INSERT INTO raw (payload) VALUES (:payload) RETURNING id;' ;;
		notify) say "WITH new AS (INSERT INTO raw (payload) VALUES (:payload) RETURNING id) SELECT id, pg_notify('bench', '') FROM new;" ;;
		submit100) say 'INSERT INTO raw (payload) SELECT unnest(:payloads::jsonb[]) RETURNING id;' ;;
		submit1000) say "INSERT INTO raw (payload) SELECT unnest($TEN_TIMES) RETURNING id;" ;;
		claim) say "$(raw_claim 1) \\gset" ;;
		empty) say "$(raw_claim 1);" ;;
		work) cat <<-SQL ;;
			$(raw_claim 1) \\gset
			DELETE FROM raw WHERE id = :id;
		SQL
		work50) cat <<-SQL ;;
			WITH t AS ($(raw_claim 50)) SELECT array_agg(id) AS ids, count(payload) AS n FROM t \\gset
			WITH d AS (DELETE FROM raw WHERE id = ANY (:ids) RETURNING id) SELECT 1 / (count(*) = :n::int8)::int FROM d;
		SQL
		cycle) cat <<-SQL ;;
			INSERT INTO raw (payload) VALUES (:payload) RETURNING id AS new \\gset
			$(raw_claim 1) \\gset
			DELETE FROM raw WHERE id = :id;
		SQL
		retry) cat <<-SQL ;;
			INSERT INTO raw (payload) VALUES (:payload) RETURNING id AS new \\gset
			$(raw_claim 1 'AND coalesce(at <= now(), true)') \\gset
			\\set die random(1, 10)
			\\if :die = 1
			UPDATE raw SET state = 0, at = now() + '1 s' WHERE id = :id;
			$(raw_claim 1 'AND coalesce(at <= now(), true)') \\gset
			\\endif
			DELETE FROM raw WHERE id = :id;
		SQL
		*) return 1 ;;
	esac
}
