/*
 * contents.c
 *		The contents of tasks, as current_user may see them.
 *
 * Everything that shows or compares payload, data, headers, result,
 * checkpoint, message or errors of tasks to readers gets them here.  There are
 * three degrees:
 *
 * - The right observe shows messages and errors, but not the contents, nor the
 *   details of errors.
 * - The right read shows the contents.  What the option redact of the queue
 *   selects is replaced, and data, which no jsonpath can select, is hidden.
 * - The right manage, in addition to read, shows everything.
 *
 * A dead letter carries contents of another queue: what the option of that
 * queue selects now, or selected when the copy was made, is replaced, too.  If
 * the queue of a task no longer exists, its option is not known, and contents
 * are replaced as a whole.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "base/json.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/step.h"
#include "query/contents.h"
#include "store/large.h"

PG_FUNCTION_INFO_V1(taskq_contents);

static const TqContents *contents_of(TqVisibility *sight, TqTask *task);
static void              ask(TqVisibility *sight, int32 queue_id);
static bool              may_manage(Oid role, const TqQueue *queue);
static void              of_letter(TqTask *task, TqContents *letter);
static bool              read_payload(TqTask *task, bool whole, Datum *value);
static Datum  show_errors(const TqContents *contents, Jsonb *errors);
static Jsonb *without_detail(Jsonb *errors);
static void   copy_error(JsonbParseState **state, JsonbContainer *error);

/*
 * Get a column as current_user may see it.  Returns false if it is null, or
 * hidden.  The value is in the current memory context, or the task's.
 */
bool
tq_contents_get(TqVisibility *sight, TqTask *task, TqColumn column,
				Datum *value)
{
	const TqContents *contents = contents_of(sight, task);

	switch (column)
	{
		case TQ_COL_MESSAGE:
			return contents->words && tq_large_look(task, column, value);
		case TQ_COL_ERRORS:
			if (!contents->words || !tq_large_look(task, column, value))
				return false;
			*value = show_errors(contents, DatumGetJsonbP(*value));
			return true;
		case TQ_COL_DATA:
			return contents->all && contents->redaction == NULL &&
				   tq_large_look(task, column, value);
		case TQ_COL_PAYLOAD:
			if (!contents->all || !read_payload(task, contents->whole, value))
				return false;
			break;
		default:
			if (!contents->all || !tq_large_look(task, column, value))
				return false;
			break;
	}
	if (contents->redaction != NULL)
		*value = JsonbPGetDatum(
			tq_redaction_apply(contents->redaction, DatumGetJsonbP(*value)));
	return true;
}

/* The answer is kept for the next tasks of the queue. */
static const TqContents *
contents_of(TqVisibility *sight, TqTask *task)
{
	if (sight->asked_queue != task->f.queue_id || sight->asked_queue == 0)
	{
		sight->asked_queue = 0;
		ask(sight, task->f.queue_id);
		sight->asked_queue = task->f.queue_id;
	}
	if ((task->f.flags & TQ_FLAG_DEAD_LETTER) == 0 || !sight->asked.all ||
		sight->asked.whole)
		return &sight->asked;
	sight->letter = sight->asked;
	of_letter(task, &sight->letter);
	return &sight->letter;
}

/*
 * What may current_user see of the tasks of a queue?  The paths are copied,
 * since the cached queue may be discarded between two rows of a scan; a scan
 * may come from one queue to another at every row.
 */
static void
ask(TqVisibility *sight, int32 queue_id)
{
	TqContents        *asked = &sight->asked;
	const TqRedaction *redaction;
	MemoryContext      mine;

	asked->words = tq_visibility_observes(sight, queue_id);
	asked->all = tq_visibility_reads(sight, queue_id);
	asked->whole = sight->all_whole;
	asked->redaction = NULL;
	if (!asked->all || asked->whole)
		return;
	redaction = tq_contents_redaction(queue_id);
	if (redaction == NULL)
		return;
	if (sight->redactions == NULL)
		sight->redactions = AllocSetContextCreate(
			sight->context, "taskq redaction", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(sight->redactions);
	mine = MemoryContextSwitchTo(sight->redactions);
	asked->redaction = tq_redaction_copy(redaction);
	MemoryContextSwitchTo(mine);
}

/*
 * What does the option redact hide from current_user in tasks of a queue?
 * NULL: nothing.  Queue 0 stands for what belongs to no queue; the option of
 * queue '*' applies to it.  The result is valid until the next refresh of the
 * cached queues.
 *
 * Between tq_spi_enter and tq_spi_leave current_user is the extension's owner,
 * from whom nothing is hidden: use tq_contents_redaction_of() there.
 */
const TqRedaction *
tq_contents_redaction(int32 queue_id)
{
	return tq_contents_redaction_of(GetUserId(), queue_id);
}

/* The same for the given role. */
const TqRedaction *
tq_contents_redaction_of(Oid role, int32 queue_id)
{
	TqQueue           *queue = queue_id == 0 ? NULL : tq_queue_by_id(queue_id);
	const TqRedaction *redaction;

	if (queue == NULL && queue_id != 0)
		return may_manage(role, NULL) ? NULL : tq_redaction_of_all();
	if (!tq_queue_any_redacted() || may_manage(role, queue))
		return NULL;
	redaction = queue == NULL ? tq_queue_defaults()->redact
							  : queue->options.redact;
	return redaction == NULL || redaction->count == 0 ? NULL : redaction;
}

/* The same for a queue that no longer exists: its option is not known. */
const TqRedaction *
tq_contents_redaction_dropped(void)
{
	return may_manage(GetUserId(), NULL) ? NULL : tq_redaction_of_all();
}

/* If queue is NULL, all queues */
static bool
may_manage(Oid role, const TqQueue *queue)
{
	int rights = queue == NULL ? tq_role_rights_all_of(role)
							   : tq_role_rights_of(role, queue);

	return (rights & TQ_RIGHT_MANAGE) != 0;
}

/*
 * Add what is hidden in a dead letter because of the queue that it comes from.
 * Its headers name the queue, and have the option as it was then.
 */
static void
of_letter(TqTask *task, TqContents *letter)
{
	TqRedaction *all;
	JsonbValue  *origin;
	JsonbValue  *list = NULL;
	JsonbValue  *name = NULL;
	JsonbValue   whole;
	TqQueue     *queue = NULL;
	Datum        headers;

	if (may_manage(GetUserId(), tq_queue_by_id(task->f.queue_id)) ||
		!tq_large_look(task, TQ_COL_HEADERS, &headers) ||
		!JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)))
		return;
	whole.type = jbvBinary;
	whole.val.binary.data = &DatumGetJsonbP(headers)->root;
	whole.val.binary.len = VARSIZE_ANY_EXHDR(DatumGetJsonbP(headers));
	origin = tq_json_member(&whole, "dead_letter");
	if (origin == NULL || !tq_json_is_object(origin))
		return;
	list = tq_json_member(origin, "redact");
	name = tq_json_member(origin, "queue");
	if (name != NULL && name->type == jbvString)
		queue = tq_queue_find(
			pnstrdup(name->val.string.val, name->val.string.len));
	all = tq_redaction_make();
	if (letter->redaction != NULL)
		tq_redaction_add(all, letter->redaction, NULL, 0);
	if (queue != NULL && queue->options.redact != NULL)
		tq_redaction_add(all, tq_redaction_copy(queue->options.redact), NULL,
						 0);
	if (list != NULL)
	{
		TqRedaction *then = tq_redaction_read(list);

		tq_redaction_add(all, then != NULL ? then : tq_redaction_of_all(),
						 NULL, 0);
	}
	letter->redaction = all->count > 0 ? all : NULL;
}

/*
 * A step may have the input of its workflow as payload: it is shown as the
 * instance shows it.
 */
static bool
read_payload(TqTask *task, bool whole, Datum *value)
{
	bool found = tq_large_look(task, TQ_COL_PAYLOAD, value);

	if (tq_step_is(task) && (task->f.flags & TQ_FLAG_INPUT) != 0 &&
		tq_step_hooks.payload != NULL)
	{
		bool  isnull;
		Datum input = tq_step_hooks.payload(task, whole, &isnull);

		if (!isnull)
			*value = input;
		found = found || !isnull;
	}
	return found;
}

/* The errors of a task; their details are contents. */
static Datum
show_errors(const TqContents *contents, Jsonb *errors)
{
	static const TqRedactionStep to_detail[] = {
		{.kind = TQ_REDACT_ANY_ELEMENT},
		{.kind = TQ_REDACT_KEY, .name = "detail", .length = 6}};
	TqRedaction *redaction;

	if (!contents->all)
		return JsonbPGetDatum(without_detail(errors));
	if (contents->redaction == NULL)
		return JsonbPGetDatum(errors);
	redaction = tq_redaction_make();
	tq_redaction_add(redaction, contents->redaction, to_detail,
					 lengthof(to_detail));
	return JsonbPGetDatum(tq_redaction_apply(redaction, errors));
}

/* Copy the list without the member detail of each error. */
static Jsonb *
without_detail(Jsonb *errors)
{
	JsonbParseState   *state = NULL;
	JsonbIterator     *it;
	JsonbValue         error;
	JsonbIteratorToken token;

	if (!JB_ROOT_IS_ARRAY(errors))
		return errors;
	(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	it = JsonbIteratorInit(&errors->root);
	(void) JsonbIteratorNext(&it, &error, true);
	while ((token = JsonbIteratorNext(&it, &error, true)) == WJB_ELEM)
	{
		if (tq_json_is_object(&error))
			copy_error(&state, error.val.binary.data);
		else
			(void) pushJsonbValue(&state, WJB_ELEM, &error);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL));
}

static void
copy_error(JsonbParseState **state, JsonbContainer *error)
{
	JsonbIterator *it = JsonbIteratorInit(error);
	JsonbValue     name;
	JsonbValue     value;

	(void) JsonbIteratorNext(&it, &name, true);
	(void) pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		if (name.val.string.len == 6 &&
			memcmp(name.val.string.val, "detail", 6) == 0)
			continue;
		(void) pushJsonbValue(state, WJB_KEY, &name);
		(void) pushJsonbValue(state, WJB_VALUE, &value);
	}
	(void) pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Replace what is hidden from current_user; redaction may be NULL. */
Jsonb *
tq_contents_redact(const TqRedaction *redaction, Jsonb *doc)
{
	return redaction == NULL || doc == NULL
			   ? doc
			   : tq_redaction_apply(redaction, doc);
}

/*
 * For views: contents that belong to a queue (0: to no queue), as current_user
 * may see them.
 */
Datum
taskq_contents(PG_FUNCTION_ARGS)
{
	int32    queue_id;
	TqQueue *queue;
	int      rights;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	tq_queue_refresh();
	queue_id = PG_GETARG_INT32(0);
	queue = queue_id == 0 ? NULL : tq_queue_by_id(queue_id);
	rights = queue == NULL ? tq_role_rights_all() : tq_role_rights(queue);
	if ((rights & TQ_RIGHT_READ) == 0)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(tq_contents_redact(tq_contents_redaction(queue_id),
										 PG_GETARG_JSONB_P(1)));
}
