/*
 * change_log.c
 *		The log of changes to queues, rights, workers, schedules and templates:
 *		taskq.changes.
 *
 * Each call that makes such a change adds a row in its transaction, with the
 * role, the claimed actor and the reason.  A call that changes nothing adds no
 * row.  Manual changes of tasks are in the history (history.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "cache/role.h"
#include "engine/change_log.h"

static TqStmt stmt_add = {
	"INSERT INTO taskq.change_log"
	" (at, role_id, actor, what, queue, object, detail, reason)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8)",
	{TIMESTAMPTZOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID,
	 TEXTOID}};

/*
 * Add a row: what is the name of the function without taskq_, queue the name
 * of a queue whose readers may see the row, or NULL, detail JSON or NULL.
 */
void
tq_change_log_add(const char *what, const char *queue, const char *object,
				  const char *detail, const char *reason)
{
	const char *words[6] = {
		tq_guc_actor_text(), what, queue, object, detail, reason};
	Datum args[8];
	bool  nulls[8] = {false};

	args[0] = TimestampTzGetDatum(tq_clock_wall());
	args[1] = Int32GetDatum(tq_role_intern(GetUserId()));
	for (int i = 0; i < lengthof(words); i++)
	{
		nulls[2 + i] = words[i] == NULL;
		args[2 + i] = words[i] == NULL ? (Datum) 0
									   : CStringGetTextDatum(words[i]);
	}
	tq_spi_execute(&stmt_add, args, nulls, SPI_OK_INSERT);
}

/* Text as a JSON string, for the detail of a row. */
char *
tq_change_log_word(const char *text)
{
	StringInfoData word;

	initStringInfo(&word);
	escape_json(&word, text);
	return word.data;
}
