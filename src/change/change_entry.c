/*
 * change_entry.c
 *		Reading the lists of a change.
 *
 * An entry that is malformed raises an error of its own, whose context names
 * the entry; an entry that is misused is one of the change's problems.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/json.h"
#include "base/place.h"
#include "change/change_entry.h"
#include "change/change_problem.h"

static void  read_list(TqChange *change, TqPart part, Jsonb *list);
static void  read_entry(TqChange *change, TqPart part, int place,
						JsonbValue *value);
static void  read_id(JsonbValue *value, TqEntry *entry);
static void  read_version(JsonbValue *value, TqEntry *entry);
static char *word(JsonbValue *value, const char *name, int max);
static void  check_members(JsonbValue *value, const char *const *allowed,
						   int count);
static void  read_add(TqChange *change, JsonbValue *value, TqEntry *entry);
static void  read_update(JsonbValue *value, TqEntry *entry);
static void  read_doc(JsonbValue *value, TqEntry *entry);
static void  read_doc_content(JsonbValue *value, TqEntry *entry);
static void  without(JsonbValue *value, const char *const *names, int count,
					 JsonbValue *rest);
static void  read_lease(JsonbValue *value, TqEntry *entry);
static void  read_skip(JsonbValue *value, TqEntry *entry);

void
tq_change_begin(TqChange *change, TqCall *call, char *worker)
{
	memset(change, 0, sizeof(*change));
	change->call = call;
	change->worker = worker;
	for (int i = 0; i < TQ_PROBLEMS; i++)
		initStringInfo(&change->problems[i]);
}

/* Read all lists; a null pointer is a list that the function does not have. */
void
tq_change_read(TqChange *change, Jsonb *const *lists)
{
	int count = 0;

	for (int part = 0; part < TQ_PARTS; part++)
	{
		if (lists[part] == NULL)
			continue;
		if (!JB_ROOT_IS_ARRAY(lists[part]) || JB_ROOT_IS_SCALAR(lists[part]))
			tq_error_invalid(tq_change_part_name((TqPart) part),
							 "must be a list", NULL);
		tq_arg_check_list(tq_change_part_name((TqPart) part),
						  JB_ROOT_COUNT(lists[part]));
		count += JB_ROOT_COUNT(lists[part]);
	}
	change->entries = MemoryContextAllocExtended(
		CurrentMemoryContext, sizeof(TqEntry) * (count + 1),
		MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int part = 0; part < TQ_PARTS; part++)
	{
		if (lists[part] != NULL)
			read_list(change, (TqPart) part, lists[part]);
	}
}

static void
read_list(TqChange *change, TqPart part, Jsonb *list)
{
	JsonbIterator *it = JsonbIteratorInit(&list->root);
	JsonbValue     value;
	int            place = 0;

	(void) JsonbIteratorNext(&it, &value, false);
	while (JsonbIteratorNext(&it, &value, true) == WJB_ELEM)
	{
		CHECK_FOR_INTERRUPTS();
		read_entry(change, part, place++, &value);
	}
}

static void
read_entry(TqChange *change, TqPart part, int place, JsonbValue *value)
{
	TqEntry *entry = &change->entries[change->count++];
	TqPlace  reading;

	tq_place_begin(&reading, tq_change_part_name(part));
	reading.index = place;
	entry->part = part;
	entry->place = place;
	switch (part)
	{
		case TQ_PART_ADDS:
			read_add(change, value, entry);
			break;
		case TQ_PART_UPDATES:
			read_update(value, entry);
			break;
		case TQ_PART_DELETES:
		case TQ_PART_DEPENDS:
			read_id(value, entry);
			break;
		default:
			read_doc(value, entry);
			break;
	}
	tq_place_end(&reading);
}

/* Read a bare id, or {task_id, version}. */
static void
read_id(JsonbValue *value, TqEntry *entry)
{
	static const char *const allowed[] = {"task_id", "version"};
	JsonbValue              *task_id;

	if (value->type == jbvNumeric)
	{
		entry->id = tq_json_int8("task_id", value);
		return;
	}
	if (!tq_json_is_object(value))
		tq_error_invalid(tq_change_part_name(entry->part),
						 "must be a list of ids, or of objects with task_id",
						 NULL);
	check_members(value, allowed, lengthof(allowed));
	task_id = tq_json_member(value, "task_id");
	if (task_id == NULL)
		tq_error_required("task_id");
	entry->id = tq_json_int8("task_id", task_id);
	read_version(value, entry);
}

static void
read_version(JsonbValue *value, TqEntry *entry)
{
	JsonbValue *version = tq_json_member(value, "version");

	entry->has_version = version != NULL;
	if (version != NULL)
		entry->version = tq_json_int8("version", version);
}

/* Return a member that is a string; NULL if there is none. */
static char *
word(JsonbValue *value, const char *name, int max)
{
	JsonbValue *found = tq_json_member(value, name);
	char       *result;

	if (found == NULL)
		return NULL;
	result = tq_json_string(name, found);
	tq_arg_check_word(result, name, max);
	return result;
}

/* Refuse members other than these. */
static void
check_members(JsonbValue *value, const char *const *allowed, int count)
{
	JsonbIterator     *it = JsonbIteratorInit(value->val.binary.data);
	JsonbIteratorToken token;
	JsonbValue         item;

	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		StringInfoData words;
		char          *name;
		int            i;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(item.val.string.val, item.val.string.len);
		for (i = 0; i < count && strcmp(allowed[i], name) != 0; i++)
			;
		if (i < count)
			continue;
		initStringInfo(&words);
		for (i = 0; i < count; i++)
			appendStringInfo(&words, "%s%s", i > 0 ? ", " : "", allowed[i]);
		tq_error_invalid(psprintf("member \"%s\"", name), "does not exist",
						 psprintf("Allowed: %s.", words.data));
	}
}

/* Read the arguments of a submit, and lease and skip_existing. */
static void
read_add(TqChange *change, JsonbValue *value, TqEntry *entry)
{
	static const char *const own_names[] = {"lease", "skip_existing"};
	static const TqEntryKind kind = {"adds", "lease, skip_existing",
									 1 << TQ_SUBMIT_ON_CONFLICT};
	FunctionCallInfo inner = palloc0(SizeForFunctionCallInfo(TQ_SUBMIT_COUNT));
	bool             named[TQ_SUBMIT_COUNT];
	JsonbValue       rest;

	entry->inner = inner;
	read_lease(value, entry);
	read_skip(value, entry);
	without(value, own_names, lengthof(own_names), &rest);
	InitFunctionCallInfoData(*inner, NULL, TQ_SUBMIT_COUNT, InvalidOid, NULL,
							 NULL);
	tq_submission_read_entry(inner, &rest, &kind, named);
	if (inner->args[TQ_SUBMIT_QUEUE].isnull)
		tq_change_bug(change, entry, "has no queue");
	if (named[TQ_SUBMIT_ON_CONFLICT])
		tq_error_invalid("on_conflict", "cannot be used in an add",
						 "Use skip_existing.");
	if (inner->args[TQ_SUBMIT_MAX_ATTEMPTS].isnull)
	{
		inner->args[TQ_SUBMIT_MAX_ATTEMPTS].value = Int32GetDatum(-1);
		inner->args[TQ_SUBMIT_MAX_ATTEMPTS].isnull = false;
	}
	tq_submission_read(inner, &entry->sub, "default");
	if (entry->lease > 0 && (entry->sub.suspended || named[TQ_SUBMIT_RUN_AT] ||
							 named[TQ_SUBMIT_DELAY]))
		tq_change_bug(change, entry,
					  "has a lease, but cannot be claimed immediately");
}

/* Read task_id, version, lease, and settings of a task. */
static void
read_update(JsonbValue *value, TqEntry *entry)
{
	static const char *const own_names[] = {"task_id", "version", "lease"};
	JsonbValue              *task_id = tq_json_member(value, "task_id");
	JsonbValue               rest;

	if (!tq_json_is_object(value))
		tq_error_invalid("updates", "must be a list of objects", NULL);
	if (task_id == NULL)
		tq_error_required("task_id");
	entry->id = tq_json_int8("task_id", task_id);
	read_version(value, entry);
	read_lease(value, entry);
	without(value, own_names, lengthof(own_names), &rest);
	entry->changes = palloc0(sizeof(TqChanges));
	tq_update_read(&rest, "updates", "task_id, version, lease",
				   entry->changes);
	if (entry->lease > 0 && (entry->changes->named[TQ_SUBMIT_RUN_AT] ||
							 entry->changes->named[TQ_SUBMIT_DELAY]))
		tq_error_invalid("lease", "cannot be combined with run_at", NULL);
}

/*
 * Read a document: a bare id, or an object with its id or its names; an added
 * document always has its names.
 */
static void
read_doc(JsonbValue *value, TqEntry *entry)
{
	static const char *const names[] = {
		"namespace", "key",    "secondary_key", "content",
		"lease",     "doc_id", "version",       "skip_existing"};
	static const char *const add_names[] = {"namespace",     "key",
											"secondary_key", "content",
											"lease",         "skip_existing"};
	static const char *const id_names[] = {"namespace", "key", "secondary_key",
										   "doc_id", "version"};
	bool                     is_add = entry->part == TQ_PART_DOC_ADDS;
	TqDocument              *doc = entry->doc = palloc0(sizeof(TqDocument));
	JsonbValue              *doc_id;

	if (value->type == jbvNumeric && !is_add &&
		entry->part != TQ_PART_DOC_UPDATES)
	{
		entry->id = tq_json_int8("doc_id", value);
		return;
	}
	if (!tq_json_is_object(value))
		tq_error_invalid(tq_change_part_name(entry->part),
						 is_add || entry->part == TQ_PART_DOC_UPDATES
							 ? "must be a list of objects"
							 : "must be a list of ids, or of objects",
						 NULL);
	if (is_add)
		check_members(value, add_names, lengthof(add_names));
	else if (entry->part == TQ_PART_DOC_UPDATES)
		check_members(value, names, lengthof(names) - 1);
	else
		check_members(value, id_names, lengthof(id_names));
	doc_id = tq_json_member(value, "doc_id");
	if (doc_id != NULL)
		entry->id = tq_json_int8("doc_id", doc_id);
	doc->space = word(value, "namespace", TQ_MAX_NAME);
	doc->key = word(value, "key", TQ_MAX_KEY);
	doc->secondary_key = word(value, "secondary_key", TQ_MAX_KEY);
	if (doc_id != NULL &&
		(doc->space != NULL || doc->key != NULL || doc->secondary_key != NULL))
		tq_error_invalid("doc_id",
						 "cannot be combined with the names of "
						 "a document",
						 NULL);
	if (doc_id == NULL && (doc->space == NULL || doc->key == NULL))
		tq_error_required(is_add ? "namespace and key"
								 : "doc_id, or namespace and key,");
	if (doc_id == NULL && doc->secondary_key == NULL)
		doc->secondary_key = "";
	read_version(value, entry);
	read_doc_content(value, entry);
	read_lease(value, entry);
	read_skip(value, entry);
}

/* Read content: null removes it, and a missing member leaves it unchanged. */
static void
read_doc_content(JsonbValue *value, TqEntry *entry)
{
	JsonbValue *content = getKeyJsonValueFromContainer(
		value->val.binary.data, "content", strlen("content"), NULL);

	entry->doc->content_named = content != NULL;
	if (content != NULL && content->type != jbvNull)
		entry->doc->content = JsonbValueToJsonb(content);
}

/* Return the object without these members. */
static void
without(JsonbValue *value, const char *const *names, int count,
		JsonbValue *rest)
{
	Datum  words[8];
	Jsonb *left;

	if (!tq_json_is_object(value))
	{
		*rest = *value;
		return;
	}
	for (int i = 0; i < count; i++)
		words[i] = CStringGetTextDatum(names[i]);
	left = DatumGetJsonbP(DirectFunctionCall2(
		jsonb_delete_array, JsonbPGetDatum(JsonbValueToJsonb(value)),
		PointerGetDatum(
			construct_array(words, count, TEXTOID, -1, false, TYPALIGN_INT))));
	rest->type = jbvBinary;
	rest->val.binary.data = &left->root;
	rest->val.binary.len = VARSIZE_ANY_EXHDR(left);
}

static void
read_lease(JsonbValue *value, TqEntry *entry)
{
	JsonbValue *lease = tq_json_member(value, "lease");

	if (lease != NULL)
		entry->lease = tq_json_span("lease", lease);
}

static void
read_skip(JsonbValue *value, TqEntry *entry)
{
	JsonbValue *skip = tq_json_member(value, "skip_existing");

	entry->skip_existing = skip != NULL && tq_json_bool("skip_existing", skip);
}
