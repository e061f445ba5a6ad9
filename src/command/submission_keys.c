/*
 * submission_keys.c
 *		Keys and references in a list of tasks to submit.
 *
 * The keys are read before the first task is written, for two reasons.  First,
 * all keys or references of a list are locked together, in the same order in
 * each call, so that two calls cannot deadlock.  Second, a task need not be
 * written if a later entry of the list would delete it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/debug.h"
#include "base/json.h"
#include "base/spi.h"
#include "cache/role.h"
#include "command/submission_keys.h"
#include "engine/key.h"
#include "engine/name_lock.h"
#include "engine/task_lock.h"
#include "store/snapshot.h"

static TqStmt stmt_holders = {
	"SELECT DISTINCT t.task_id"
	" FROM unnest($1, $2) AS n (queue_id, reference)"
	" CROSS JOIN LATERAL (SELECT h.task_id FROM taskq.task h"
	"   WHERE h.queue_id = n.queue_id AND h.reference = n.reference"
	"   OFFSET 0) t"
	" ORDER BY 1",
	{INT4ARRAYOID, TEXTARRAYOID}};

static TqStmt stmt_holder_keys = {
	"SELECT DISTINCT n.queue_id, h.key"
	" FROM unnest($1, $2) AS n (queue_id, reference)"
	" CROSS JOIN LATERAL (SELECT t.key FROM taskq.task t"
	"   WHERE t.queue_id = n.queue_id AND t.reference = n.reference"
	"   OFFSET 0) h"
	" WHERE h.key IS NOT NULL",
	{INT4ARRAYOID, TEXTARRAYOID}};

static void  note_deletions(TqSubmissionKeys *keys);
static int   compare_list_keys(const void *a, const void *b);
static int   changed_references(const TqSubmissionKeys *keys, bool ordered,
								Datum *args);
static int   holder_keys(const TqSubmissionKeys *keys, TqKeyName **names,
						 int count);
static void  check_holder_keys(TqCall *call, const TqSubmissionKeys *keys);
static char *word_of(const JsonbValue *entry, const char *name);

/*
 * Read the keys in the list.  A problem with an entry is reported when the
 * entry is submitted.
 */
void
tq_submission_keys_read(Jsonb *list, TqSubmissionKeys *keys)
{
	JsonbIterator *it;
	JsonbValue     entry;

	keys->all = MemoryContextAllocHuge(CurrentMemoryContext,
									   sizeof(TqSubmissionKey) *
										   (JB_ROOT_COUNT(list) + 1));
	keys->count = 0;
	keys->references = 0;
	it = JsonbIteratorInit(&list->root);
	(void) JsonbIteratorNext(&it, &entry, false);
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
	{
		TqSubmissionKey *key = &keys->all[keys->count++];
		char            *insertion = word_of(&entry, "insertion");
		char            *on_conflict = word_of(&entry, "on_conflict");

		CHECK_FOR_INTERRUPTS();
		key->key = word_of(&entry, "key");
		key->queue_name = word_of(&entry, "queue");
		if (key->queue_name == NULL)
			key->queue_name = pstrdup("default");
		if (insertion == NULL ||
			!tq_insertion_parse(insertion, &key->insertion))
			key->insertion = TQ_INSERTION_APPEND;
		key->reference = word_of(&entry, "reference");
		keys->references += key->reference != NULL;
		key->may_be_kept_out = key->reference != NULL && on_conflict != NULL;
		key->may_change = key->may_be_kept_out &&
						  (strcmp(on_conflict, "update") == 0 ||
						   strcmp(on_conflict, "merge") == 0);
	}
	note_deletions(keys);
}

/*
 * For each entry, find out whether a later entry deletes all tasks of its key.
 * A later entry that may not be submitted, because its reference exists, does
 * not count.
 */
static void
note_deletions(TqSubmissionKeys *keys)
{
	TqSubmissionKey **sorted = MemoryContextAllocHuge(
		CurrentMemoryContext, sizeof(TqSubmissionKey *) * (keys->count + 1));
	bool deleted = false;

	for (int i = 0; i < keys->count; i++)
	{
		sorted[i] = &keys->all[i];
		keys->all[i].deleted = false;
	}
	qsort(sorted, keys->count, sizeof(TqSubmissionKey *), compare_list_keys);
	for (int i = keys->count - 1; i >= 0; i--)
	{
		TqSubmissionKey *later = i + 1 < keys->count ? sorted[i + 1] : NULL;

		if (sorted[i]->key == NULL)
			break;
		if (later == NULL || strcmp(later->key, sorted[i]->key) != 0 ||
			strcmp(later->queue_name, sorted[i]->queue_name) != 0)
			deleted = false;
		sorted[i]->deleted = deleted;
		deleted = deleted || (sorted[i]->insertion == TQ_INSERTION_DELETE &&
							  !sorted[i]->may_be_kept_out);
	}
	pfree(sorted);
}

/* Order entries without a key first, then by queue, key and list order. */
static int
compare_list_keys(const void *a, const void *b)
{
	const TqSubmissionKey *x = *(TqSubmissionKey *const *) a;
	const TqSubmissionKey *y = *(TqSubmissionKey *const *) b;
	int                    order;

	if ((x->key == NULL) != (y->key == NULL))
		return x->key == NULL ? -1 : 1;
	if (x->key != NULL)
	{
		order = strcmp(x->queue_name, y->queue_name);
		if (order == 0)
			order = strcmp(x->key, y->key);
		if (order != 0)
			return order;
	}
	return x < y ? -1 : x > y;
}

/*
 * Lock all keys of a list before its first task is written, and the keys of
 * the tasks that entries of the list may change.
 */
void
tq_submission_keys_lock(TqCall *call, const TqSubmissionKeys *keys)
{
	TqKeyName *names = MemoryContextAllocHuge(
		CurrentMemoryContext, sizeof(TqKeyName) * (keys->count + 1));
	int named = 0;

	for (int i = 0; i < keys->count; i++)
	{
		TqSubmissionKey *key = &keys->all[i];
		TqQueue         *queue;

		if (key->key == NULL || strlen(key->key) > TQ_MAX_KEY)
			continue;
		if (named == 0)
			tq_queue_lock_insertions();
		queue = tq_queue_find(key->queue_name);
		if (queue == NULL || (tq_role_rights(queue) & TQ_RIGHT_SUBMIT) == 0 ||
			(key->insertion == TQ_INSERTION_APPEND &&
			 !tq_key_is_ordered(queue)))
			continue;
		names[named].queue_id = queue->queue_id;
		names[named++].key = cstring_to_text(key->key);
	}
	named = holder_keys(keys, &names, named);
	tq_key_lock_names(call, names, named);
	pfree(names);
}

/* Add the keys of the tasks that entries of the list may change. */
static int
holder_keys(const TqSubmissionKeys *keys, TqKeyName **names, int count)
{
	Datum  args[2];
	uint64 rows;
	TqSpi  spi;

	if (!tq_queue_any_ordered() || changed_references(keys, true, args) == 0)
		return count;
	tq_queue_lock_insertions();
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_holder_keys, args, NULL, 0);
	MemoryContextSwitchTo(spi.caller);
	*names = repalloc_huge(*names, sizeof(TqKeyName) * (count + rows + 1));
	for (uint64 row = 0; row < rows; row++)
	{
		bool isnull;

		(*names)[count].queue_id = tq_spi_int4(row, 1, 0);
		(*names)[count++].key = DatumGetTextPCopy(tq_spi_get(row, 2, &isnull));
	}
	tq_spi_leave(&spi);
	return count;
}

/*
 * Set args to the queues and references whose tasks entries of the list may
 * change, of queues that order tasks by key if ordered is true.  Returns their
 * number.
 */
static int
changed_references(const TqSubmissionKeys *keys, bool ordered, Datum *args)
{
	Size   room = sizeof(Datum) * (keys->count + 1);
	Datum *queues = MemoryContextAllocHuge(CurrentMemoryContext, room);
	Datum *references = MemoryContextAllocHuge(CurrentMemoryContext, room);
	int    count = 0;

	for (int i = 0; i < keys->count; i++)
	{
		TqSubmissionKey *key = &keys->all[i];
		TqQueue         *queue;

		if (!key->may_change ||
			(queue = tq_queue_find(key->queue_name)) == NULL ||
			(ordered && (!tq_key_is_ordered(queue) ||
						 (tq_role_rights(queue) & TQ_RIGHT_SUBMIT) == 0)))
			continue;
		queues[count] = Int32GetDatum(queue->queue_id);
		references[count++] = CStringGetTextDatum(key->reference);
	}
	args[0] = PointerGetDatum(construct_array(
		queues, count, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	args[1] = PointerGetDatum(
		construct_array(references, count, TEXTOID, -1, false, TYPALIGN_INT));
	return count;
}

/*
 * Lock all references of a list.  Then lock, in the order of their ids, the
 * tasks with these references that entries of the list may change.
 */
void
tq_submission_keys_lock_references(TqCall *call, const TqSubmissionKeys *keys)
{
	Bitmapset *names = NULL;
	uint64     found;
	int64     *ids;
	Datum      args[2];

	for (int i = 0; i < keys->count; i++)
	{
		if (keys->all[i].reference != NULL)
			names = tq_name_lock_add(names, keys->all[i].reference);
	}
	tq_name_lock(TQ_NAME_REFERENCE, names, NULL);
	TQ_DEBUG_POINT("references_locked");
	tq_snapshot_renew();
	(void) changed_references(keys, false, args);
	found = tq_spi_list(&stmt_holders, args, &ids);
	for (uint64 i = 0; i < found; i++)
		(void) tq_task_lock(call, ids[i], TQ_RIGHT_SUBMIT, false);
	tq_snapshot_renew();
	check_holder_keys(call, keys);
}

/* A holder may have got another key during the waits. */
static void
check_holder_keys(TqCall *call, const TqSubmissionKeys *keys)
{
	TqKeyName *names = palloc(sizeof(TqKeyName));
	int        count = holder_keys(keys, &names, 0);

	tq_key_require_locked(call, names, count);
	pfree(names);
}

/* Return a member that is a string, or NULL. */
static char *
word_of(const JsonbValue *entry, const char *name)
{
	JsonbValue *value = tq_json_member(entry, name);

	if (value == NULL || value->type != jbvString)
		return NULL;
	return pnstrdup(value->val.string.val, value->val.string.len);
}
