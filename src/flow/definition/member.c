/*
 * member.c
 *		Reads and checks members of a definition.
 *
 * Each function takes a member's value and its path, records what is wrong
 * with it, and returns a value with which reading can continue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/json.h"
#include "base/types.h"
#include "cache/options.h"
#include "flow/definition/member.h"
#include "flow/definition/problem.h"
#include "flow/definition/value.h"

/* Begin to read the members of an object. path may be NULL. */
void
tq_member_list_begin(TqMembers *members, JsonbContainer *object,
					 const char *path)
{
	JsonbValue begin;

	members->of = path;
	members->it = JsonbIteratorInit(object);
	(void) JsonbIteratorNext(&members->it, &begin, false);
}

/* Get name, path and value of the next member.  Returns false at the end. */
bool
tq_member_list_next(TqMembers *members, JsonbValue *value)
{
	JsonbValue key;

	if (JsonbIteratorNext(&members->it, &key, true) != WJB_KEY)
		return false;
	members->name = pnstrdup(key.val.string.val, key.val.string.len);
	members->path = members->of == NULL
						? members->name
						: psprintf("%s.%s", members->of, members->name);
	(void) JsonbIteratorNext(&members->it, value, true);
	return true;
}

/* Read a name, key or similar text.  Returns NULL if it is invalid. */
char *
tq_member_word(TqDefinitionProblems *problems, const char *path,
			   const JsonbValue *value, int max)
{
	char *word;

	if (value->type != jbvString)
	{
		tq_problem(problems, path, "must be a string");
		return NULL;
	}
	word = pnstrdup(value->val.string.val, value->val.string.len);
	if (!tq_arg_word_is_valid(word, max))
	{
		tq_problem(problems, path,
				   "must have 1 to %d bytes, and no control characters", max);
		return NULL;
	}
	return word;
}

/* Read the name of a queue for tasks.  Returns NULL if it is invalid. */
char *
tq_member_queue(TqDefinitionProblems *problems, const char *path,
				const JsonbValue *value)
{
	char *queue = tq_member_word(problems, path, value, TQ_MAX_NAME);

	if (queue == NULL || strcmp(queue, "*") != 0)
		return queue;
	tq_problem(problems, path, "must be the name of one queue");
	return NULL;
}

/*
 * Read one of several words.  Returns the first word if the value is invalid.
 */
int
tq_member_choice(TqDefinitionProblems *problems, const char *path,
				 const JsonbValue *value, const char *const *words, int count)
{
	StringInfoData all;

	for (int i = 0; i < count; i++)
	{
		if (value->type == jbvString &&
			value->val.string.len == (int) strlen(words[i]) &&
			memcmp(value->val.string.val, words[i], value->val.string.len) ==
				0)
			return i;
	}
	initStringInfo(&all);
	for (int i = 0; i < count; i++)
		appendStringInfo(&all, "%s%s", i > 0 ? ", " : "", words[i]);
	tq_problem(problems, path, "must be one of %s", all.data);
	return 0;
}

/* Read an integer.  Returns 0 if it is invalid. */
int
tq_member_integer(TqDefinitionProblems *problems, const char *path,
				  const JsonbValue *value, int min, int max)
{
	int64 number;

	if (value->type == jbvNumeric &&
		tq_value_whole(value->val.numeric, &number) && number >= min &&
		number <= max)
		return (int) number;
	tq_problem(problems, path, "must be a whole number from %d to %d", min,
			   max);
	return 0;
}

bool
tq_member_span(TqDefinitionProblems *problems, const char *path,
			   const JsonbValue *value, bool forever, int64 *span)
{
	char *word;

	if (value->type != jbvString)
	{
		tq_problem(problems, path, "must be an interval, as text");
		return false;
	}
	word = pnstrdup(value->val.string.val, value->val.string.len);
	if (forever && strcmp(word, "forever") == 0)
	{
		*span = TQ_FOREVER;
		return true;
	}
	if (tq_value_span(word, span))
		return true;
	tq_problem(problems, path,
			   "must be an interval from 0 to 10 years, with a unit");
	return false;
}

void
tq_member_tags(TqDefinitionProblems *problems, const char *path,
			   const JsonbValue *value, TqTags *tags)
{
	JsonbIterator *it;
	JsonbValue     entry;
	int            count;

	if (!tq_json_is_list(value))
	{
		tq_problem(problems, path, "must be a list of strings");
		return;
	}
	count = JsonContainerSize(value->val.binary.data);
	tags->tags = palloc(sizeof(char *) * (count + 1));
	it = JsonbIteratorInit(value->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	for (int i = 0; i < count; i++)
	{
		char *tag;

		(void) JsonbIteratorNext(&it, &entry, true);
		tag = tq_member_word(problems, psprintf("%s[%d]", path, i), &entry,
							 TQ_MAX_TAG);
		if (tag != NULL)
			tags->tags[tags->count++] = tag;
	}
	tq_arg_tags_sort(tags);
	if (tags->count > TQ_MAX_TAGS)
	{
		tq_problem(problems, path, "has more than %d tags", TQ_MAX_TAGS);
		tags->count = TQ_MAX_TAGS;
	}
}

/*
 * Read a jsonpath.  Returns NULL if it is invalid.  Adds the steps that it
 * names to wanted.
 */
JsonPath *
tq_member_path(TqDefinitionProblems *problems, const char *path,
			   const JsonbValue *value, List **wanted)
{
	char     *word;
	char     *wrong;
	JsonPath *result;

	if (value->type != jbvString)
	{
		tq_problem(problems, path, "must be a jsonpath, as text");
		return NULL;
	}
	word = pnstrdup(value->val.string.val, value->val.string.len);
	result = tq_value_path(word, &wrong);
	if (result == NULL)
		tq_problem(problems, path, "is not a valid jsonpath: %s", wrong);
	else
		*wanted = tq_value_names(result, *wanted);
	return result;
}

/* Read a document in which each object {"$": path} must have a valid path. */
Jsonb *
tq_member_pattern(TqDefinitionProblems *problems, const char *path,
				  JsonbValue *value, List **wanted)
{
	Jsonb    *pattern = JsonbValueToJsonb(value);
	List     *paths = tq_value_paths(pattern);
	ListCell *cell;

	foreach (cell, paths)
	{
		JsonbValue found;
		char      *word = lfirst(cell);

		found.type = jbvString;
		found.val.string.val = word;
		found.val.string.len = (int) strlen(word);
		(void) tq_member_path(problems, path, &found, wanted);
	}
	return pattern;
}

/*
 * Check the options of a step.  They are checked together, since they are
 * rarely invalid; if they are invalid, each is checked by itself.
 */
void
tq_member_check_options(TqDefinitionProblems *problems, const char *path,
						Jsonb *options)
{
	bool       wrong_list = false;
	TqOptions  own;
	TqMembers  members;
	JsonbValue value;

	if (tq_value_wrong_options(options) == NULL)
		return;
	if (VARSIZE(options) > TQ_MAX_SMALL_DOC)
		tq_problem(problems, path, "has more than %d bytes of options",
				   TQ_MAX_SMALL_DOC);
	tq_options_default(&own);
	tq_member_list_begin(&members, &options->root, path);
	while (tq_member_list_next(&members, &value))
	{
		if (tq_value_option(&own, members.name, &value))
			continue;
		wrong_list = wrong_list || strcmp(members.name, "retry_list") == 0;
		tq_problem(problems, members.path,
				   "has a value that is not allowed; allowed: %s",
				   tq_options_allowed(members.name));
	}
	if (tq_options_lack_list(&own) && !wrong_list)
		tq_problem(problems, psprintf("%s.retry", path),
				   "is list, but retry_list is missing");
}
