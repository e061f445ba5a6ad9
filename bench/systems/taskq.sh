# shellcheck shell=bash disable=SC2034
# taskq, called as a role that has the rights submit and work and nothing else.
#
#   TASKQ_OPTIONS     of the queue; retention none unless a part says otherwise
#   TASKQ_FILLFACTOR  of the table of live tasks, if a part sets it

taskq_is=template
TASKQ_OPTIONS='{"retention": "none"}'
TASKQ_FILLFACTOR=

taskq_make() {
	sql "$1" -c 'CREATE EXTENSION taskq' \
		-c "SELECT taskq_create_queue('bench', '$TASKQ_OPTIONS')" \
		-c "SELECT taskq_grant('*', 'bench', '{submit,work}')" || return
	[ -z "$TASKQ_FILLFACTOR" ] ||
		sql "$1" -c "ALTER TABLE taskq.task SET (fillfactor = $TASKQ_FILLFACTOR)"
}

taskq_kind() { cksum <<<"$TASKQ_OPTIONS$TASKQ_FILLFACTOR" | cut -d ' ' -f 1; }

# A copied database processes nothing until it is activated.
taskq_copied() { sql "$1" -o /dev/null -c 'SELECT taskq_activate()'; }

# taskq_fill DB N [QUEUE]: in calls of at most 50,000
taskq_fill() {
	local queue=${3:-bench} left=$2 some
	while [ "$left" -gt 0 ]; do
		some=$((left > 50000 ? 50000 : left))
		sql "$1" -o /dev/null -c "SELECT count(*) FROM taskq_submit_many('$queue',
			array_fill('$PAYLOAD'::jsonb, ARRAY[$some]))" || return
		left=$((left - some))
	done
}

taskq_left() {
	sql "$1" -c "SELECT pending + running FROM taskq.queues WHERE queue = 'bench'"
}

taskq_script() {
	local claim='SELECT task_id, token, payload FROM'
	case $1 in
		submit) say "SELECT taskq_submit('bench', :payload);" ;;
		submit100) say "SELECT * FROM taskq_submit_many('bench', :payloads);" ;;
		submit1000) say "SELECT * FROM taskq_submit_many('bench', $TEN_TIMES);" ;;
		claim) say "$claim taskq_claim('bench') \\gset" ;;
		empty) say "$claim taskq_claim('bench');" ;;
		work) cat <<-SQL ;;
			$claim taskq_claim('bench') \\gset
			SELECT taskq_complete(:task_id, :token);
		SQL
		work50) cat <<-SQL ;;
			SELECT array_agg(task_id) AS ids, array_agg(token) AS tokens, count(payload) AS n FROM taskq_claim('bench', max_tasks => 50) \\gset
			SELECT 1 / (count(*) = :n::int8 AND bool_and(ok))::int FROM taskq_complete_many(:ids, :tokens);
		SQL
		again) cat <<-SQL ;;
			\\if :first
			$claim taskq_claim('bench') \\gset
			\\set first 0
			\\endif
			$claim taskq_complete_and_claim(ARRAY[:task_id::int8], ARRAY[:token::int8], queue => 'bench') \\gset
		SQL
		sql) cat <<-SQL ;;
			$claim taskq_claim('bench') \\gset
			BEGIN;
			SELECT 1;
			SELECT taskq_complete(:task_id, :token);
			COMMIT;
		SQL
		cycle) cat <<-SQL ;;
			SELECT taskq_submit('bench', :payload);
			$claim taskq_claim('bench') \\gset
			SELECT taskq_complete(:task_id, :token);
		SQL
		retry) cat <<-SQL ;;
			SELECT taskq_submit('bench', :payload);
			$claim taskq_claim('bench') \\gset
			\\set die random(1, 10)
			\\if :die = 1
			SELECT taskq_fail(:task_id, :token, 'once more', retry_in => '1 s');
			$claim taskq_claim('bench') \\gset
			\\endif
			SELECT taskq_complete(:task_id, :token);
		SQL
		*) return 1 ;;
	esac
}
