# state: one place changes the state of a task: src/engine/state.c. Only it
# calls what writes rows of tasks below it; statements that remove finished or
# dropped tasks are listed here, and none writes a state.
. test/run/tap.sh

# only state.c inserts, changes and deletes rows of tasks
writers='tq_row_(update|delete|insert|insert_archive)'
# and tables by row.c and multi_insert.c, which it calls; edge.c deletes edges
table_writers='table_tuple_(update|delete|insert|insert_speculative|complete_speculative)|table_multi_insert|heap_(update|delete|insert|multi_insert|inplace_update)|simple_heap_(update|delete|insert)|simple_table_tuple_(update|delete|insert)|CatalogTuple(Insert|Update|Delete)'
tables='task|archive(_([0-9]{2}|keep)?)?'
# DELETE FROM or TRUNCATE of tasks: retention, expire, purge, drop_queue, insertions
# that delete, and tq_archive_take, whose callers pass the task to
# tq_state_enter
removers='src/(maintenance/retention|command/(purge|queue_admin)|store/archive|flow/run/expire|keyed/key_insertion)\.c'

# calls FILES PATTERN: each call of such a function, which prototypes are not
calls() {
	local pattern=$1
	shift
	[ $# -eq 0 ] || grep -nE "\\b($pattern)\\(" /dev/null "$@" |
		grep -vE '^[^:]+:[0-9]+:(extern|static) '
}

# statements FILES...: the statements of these files in one line each: C's
# string literals put together, SQL up to its semicolon
statements() {
	perl -0777 -e '
		for my $file (@ARGV) {
			open my $fh, "<", $file or die;
			my $text = <$fh>;
			my @found;
			if ($file =~ /\.sql$/) {
				$text =~ s,/\*.*?\*/,,gs;
				$text =~ s/--[^\n]*//g;
				@found = split /;/, $text;
			}
			else {
				$text =~ s,/\*.*?\*/,,gs;
				$text =~ s/\\\n//g;
				while ($text =~ /((?:"(?:[^"\\]|\\.)*"\s*(?:[A-Za-z_]\w*\s*(?="))?)+)/g) {
					my $literal = $1;
					$literal =~ s/"([^"]*)"\s*/$1 /g;
					push @found, $literal;
				}
			}
			for (@found) { s/\s+/ /g; print "$file: $_\n"; }
		}' "$@"
}

# findings FILES...: prints the calls that break the rule
findings() {
	local c sql
	c=$(printf '%s\n' "$@" | grep '\.[ch]$')
	sql=$(printf '%s\n' "$@" | grep '\.sql$')
	# shellcheck disable=SC2086 # names without blanks
	{
		calls "$writers" $c | grep -vE '^src/(engine/state|store/row)\.[ch]:'
		calls "$table_writers" $c | grep -vE '^src/(store/(row|multi_insert)|flow/instance/edge)\.c:'
		[ -z "$c" ] ||
			grep -nE '(->|\.)f\.state[[:space:]]*=[^=]' /dev/null $c |
			grep -v '^src/engine/state\.c:'
		statements $c $sql |
			grep -iE "\\b(UPDATE|INSERT INTO|MERGE INTO|COPY)( ONLY)? taskq\\.($tables)\\b"
		statements $c $sql |
			grep -iE "\\b(DELETE FROM|TRUNCATE)( TABLE| ONLY)* taskq\\.($tables)\\b" |
			grep -vE "^$removers:"
	} | sed 's/^[^:]*\/planted/planted/' | cut -c1-160
}

none 'no other file writes a task, or its state' "$(
	# shellcheck disable=SC2046 # names without blanks
	findings $(c_files) $(find sql -name '*.sql' | sort))"
none 'state.c writes the state' "$(
	grep -qE 'task->f\.state = ' src/engine/state.c || echo src/engine/state.c)"

# --- the lint can fail
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT

# noticed NAME SUFFIX TEXT: this, in a file of its own, is a finding
noticed() {
	printf '%s\n' "$3" >"$planted/planted.$2"
	none "noticed: $1" "$([ -n "$(findings "$planted/planted.$2")" ] || echo "$3")"
}

# passed NAME SUFFIX TEXT: this is not a finding
passed() {
	printf '%s\n' "$3" >"$planted/planted.$2"
	none "passed: $1" "$(findings "$planted/planted.$2")"
}

noticed 'an update' c '	if (!tq_row_update(call, &task, true))'
noticed 'a heap update' c '	heap_update(rel, &tid, tuple, cid, snapshot, true, &tmfd, &mode);'
noticed 'a state that is set' c '	task->f.state = TQ_STATE_DONE;'
noticed 'the same of a copy' c '	task.f.state=2;'
noticed 'SQL in C' c 'static TqStmt s = {"WITH x AS (SELECT 1)"
	" UPDATE taskq.task SET state = 1"
	" WHERE task_id = $1", 1, {INT8OID}, NULL};'
noticed 'SQL in C, broken at any place' c '	"INSERT INTO"
	" taskq.archive_keep SELECT"'
noticed 'SQL in C, made by a macro' c '#define MOVE(leaf) "DELETE FROM " \
	"taskq.archive_" leaf'
noticed 'SQL' sql 'UPDATE taskq.task t SET state = 1;'
noticed 'SQL in lower case over lines' sql 'SELECT 1;
delete from
	only taskq.archive;'
noticed 'SQL that merges' sql 'MERGE INTO taskq.task USING x ON true WHEN MATCHED THEN DELETE;'
passed 'a comparison' c '	if (task->f.state == TQ_STATE_DONE)'
passed 'a query' c '	"SELECT task_id FROM taskq.task WHERE state = 3 FOR UPDATE"'
passed 'another table' c '	"DELETE FROM taskq.task_sign WHERE sign_id IN (SELECT 1)"'
passed 'another table in SQL' sql "INSERT INTO taskq.archive_rotation VALUES (true);
CREATE TABLE taskq.task (task_id bigint);"
passed 'a comment' c '/* Here it does not UPDATE taskq.task. */'

done_testing
