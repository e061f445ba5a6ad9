/*
 * schema.c
 *		Checks a workflow's input against a subset of JSON Schema.
 *
 * The supported members are type, required, properties, items, enum, minimum,
 * maximum and pattern, with the meaning of JSON Schema, and title and
 * description, which have no effect.  A pattern is a regular expression of
 * PostgreSQL and may match anywhere.  Every other member is a problem of the
 * definition, because ignoring a rule would break it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "base/json.h"
#include "flow/definition/member.h"
#include "flow/definition/problem.h"
#include "flow/definition/schema.h"
#include "flow/definition/value.h"

static const char *const type_words[] = {
	"object", "array", "string", "number", "integer", "boolean", "null"};

static void check(JsonbContainer *schema, const char *path,
				  TqDefinitionProblems *problems);
static void check_keyword(const char *word, JsonbValue *value,
						  const char *path, TqDefinitionProblems *problems);
static void check_type(JsonbValue *value, const char *path,
					   TqDefinitionProblems *problems);
static void check_strings(JsonbValue *value, const char *path,
						  TqDefinitionProblems *problems);
static void check_properties(JsonbValue *value, const char *path,
							 TqDefinitionProblems *problems);
static void check_schema_value(JsonbValue *value, const char *path,
							   TqDefinitionProblems *problems);
static void apply(JsonbContainer *schema, JsonbValue *value, const char *path,
				  TqDefinitionProblems *problems);
static void apply_type(JsonbContainer *schema, JsonbValue *value,
					   const char *path, TqDefinitionProblems *problems);
static void apply_enum(JsonbContainer *schema, JsonbValue *value,
					   const char *path, TqDefinitionProblems *problems);
static void apply_bounds(JsonbContainer *schema, JsonbValue *value,
						 const char *path, TqDefinitionProblems *problems);
static void apply_pattern(JsonbContainer *schema, JsonbValue *value,
						  const char *path, TqDefinitionProblems *problems);
static void apply_members(JsonbContainer *schema, JsonbValue *value,
						  const char *path, TqDefinitionProblems *problems);
static void apply_items(JsonbContainer *schema, JsonbValue *value,
						const char *path, TqDefinitionProblems *problems);
static bool is_of_type(JsonbValue *value, const char *type, int length);
static JsonbValue *keyword(JsonbContainer *schema, const char *word);

/* Can the schema be applied? */
void
tq_schema_check(Jsonb *schema, TqDefinitionProblems *problems)
{
	if (!JB_ROOT_IS_OBJECT(schema))
		tq_problem(problems, "input_schema", "must be an object");
	else
		check(&schema->root, "input_schema", problems);
}

/* Record where a document does not match the schema. */
void
tq_schema_apply(Jsonb *schema, Jsonb *document, TqDefinitionProblems *problems)
{
	JsonbValue value;

	if (!JB_ROOT_IS_SCALAR(document) ||
		!JsonbExtractScalar(&document->root, &value))
	{
		value.type = jbvBinary;
		value.val.binary.data = &document->root;
		value.val.binary.len = VARSIZE_ANY_EXHDR(document);
	}
	apply(&schema->root, &value, "input", problems);
}

static void
check(JsonbContainer *schema, const char *path, TqDefinitionProblems *problems)
{
	TqMembers  members;
	JsonbValue value;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	tq_member_list_begin(&members, schema, path);
	while (tq_member_list_next(&members, &value))
		check_keyword(members.name, &value, members.path, problems);
}

static void
check_keyword(const char *word, JsonbValue *value, const char *path,
			  TqDefinitionProblems *problems)
{
	if (strcmp(word, "type") == 0)
		check_type(value, path, problems);
	else if (strcmp(word, "required") == 0)
		check_strings(value, path, problems);
	else if (strcmp(word, "properties") == 0)
		check_properties(value, path, problems);
	else if (strcmp(word, "items") == 0)
		check_schema_value(value, path, problems);
	else if (strcmp(word, "enum") == 0)
	{
		if (!tq_json_is_list(value))
			tq_problem(problems, path, "must be a list");
	}
	else if (strcmp(word, "minimum") == 0 || strcmp(word, "maximum") == 0)
	{
		if (value->type != jbvNumeric)
			tq_problem(problems, path, "must be a number");
	}
	else if (strcmp(word, "pattern") == 0)
	{
		bool  matches;
		char *wrong;

		if (value->type != jbvString)
			tq_problem(problems, path, "must be a string");
		else if (!tq_value_like(
					 pnstrdup(value->val.string.val, value->val.string.len),
					 "", &matches, &wrong))
			tq_problem(problems, path, "%s", wrong);
	}
	else if (strcmp(word, "title") == 0 || strcmp(word, "description") == 0)
	{
		if (value->type != jbvString)
			tq_problem(problems, path, "must be a string");
	}
	else
		tq_problem(problems, path,
				   "is not supported: a schema may have type, required, "
				   "properties, items, enum, minimum, maximum, pattern, "
				   "title, description");
}

/* A type or a list of types. */
static void
check_type(JsonbValue *value, const char *path, TqDefinitionProblems *problems)
{
	JsonbIterator *it;
	JsonbValue     entry;

	if (value->type == jbvString)
	{
		for (int i = 0; i < lengthof(type_words); i++)
		{
			if (value->val.string.len == (int) strlen(type_words[i]) &&
				memcmp(value->val.string.val, type_words[i],
					   value->val.string.len) == 0)
				return;
		}
	}
	else if (tq_json_is_list(value) &&
			 JsonContainerSize(value->val.binary.data) > 0)
	{
		int n = 0;

		it = JsonbIteratorInit(value->val.binary.data);
		(void) JsonbIteratorNext(&it, &entry, false);
		while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
		{
			char *entry_path = psprintf("%s[%d]", path, n++);

			if (entry.type == jbvString)
				check_type(&entry, entry_path, problems);
			else
				tq_problem(problems, entry_path, "must be a string");
		}
		return;
	}
	tq_problem(problems, path,
			   "must be object, array, string, number, integer, boolean or "
			   "null, or a list of these");
}

static void
check_strings(JsonbValue *value, const char *path,
			  TqDefinitionProblems *problems)
{
	JsonbIterator *it;
	JsonbValue     entry;
	bool           good = tq_json_is_list(value);

	if (good)
	{
		it = JsonbIteratorInit(value->val.binary.data);
		(void) JsonbIteratorNext(&it, &entry, false);
		while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
			good = good && entry.type == jbvString;
	}
	if (!good)
		tq_problem(problems, path, "must be a list of strings");
}

static void
check_properties(JsonbValue *value, const char *path,
				 TqDefinitionProblems *problems)
{
	TqMembers  members;
	JsonbValue member;

	if (!tq_json_is_object(value))
	{
		tq_problem(problems, path, "must be an object");
		return;
	}
	tq_member_list_begin(&members, value->val.binary.data, path);
	while (tq_member_list_next(&members, &member))
		check_schema_value(&member, members.path, problems);
}

static void
check_schema_value(JsonbValue *value, const char *path,
				   TqDefinitionProblems *problems)
{
	if (!tq_json_is_object(value))
		tq_problem(problems, path, "must be an object");
	else
		check(value->val.binary.data, path, problems);
}

/* Apply each rule that is present. */
static void
apply(JsonbContainer *schema, JsonbValue *value, const char *path,
	  TqDefinitionProblems *problems)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	apply_type(schema, value, path, problems);
	apply_enum(schema, value, path, problems);
	apply_bounds(schema, value, path, problems);
	apply_pattern(schema, value, path, problems);
	apply_members(schema, value, path, problems);
	apply_items(schema, value, path, problems);
}

static void
apply_type(JsonbContainer *schema, JsonbValue *value, const char *path,
		   TqDefinitionProblems *problems)
{
	JsonbValue    *type = keyword(schema, "type");
	JsonbIterator *it;
	JsonbValue     entry;
	StringInfoData words;

	if (type == NULL)
		return;
	if (type->type == jbvString)
	{
		if (!is_of_type(value, type->val.string.val, type->val.string.len))
			tq_problem(problems, path, "must be of type %.*s",
					   type->val.string.len, type->val.string.val);
		return;
	}
	initStringInfo(&words);
	it = JsonbIteratorInit(type->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
	{
		if (is_of_type(value, entry.val.string.val, entry.val.string.len))
			return;
		appendStringInfo(&words, "%s%.*s", words.len > 0 ? ", " : "",
						 entry.val.string.len, entry.val.string.val);
	}
	tq_problem(problems, path, "must be of one of the types %s", words.data);
}

static void
apply_enum(JsonbContainer *schema, JsonbValue *value, const char *path,
		   TqDefinitionProblems *problems)
{
	Jsonb         *given;
	JsonbValue    *list = keyword(schema, "enum");
	JsonbIterator *it;
	JsonbValue     entry;

	if (list == NULL)
		return;
	given = JsonbValueToJsonb(value);
	it = JsonbIteratorInit(list->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
	{
		Jsonb *allowed = JsonbValueToJsonb(&entry);
		int    order = compareJsonbContainers(&given->root, &allowed->root);

		pfree(allowed);
		if (order == 0)
			return;
	}
	pfree(given);
	tq_problem(problems, path, "is not one of the values in enum");
}

static void
apply_bounds(JsonbContainer *schema, JsonbValue *value, const char *path,
			 TqDefinitionProblems *problems)
{
	JsonbValue *minimum = keyword(schema, "minimum");
	JsonbValue *maximum = keyword(schema, "maximum");

	if (value->type != jbvNumeric)
		return;
	if (minimum != NULL && DatumGetBool(DirectFunctionCall2(
							   numeric_lt, NumericGetDatum(value->val.numeric),
							   NumericGetDatum(minimum->val.numeric))))
		tq_problem(problems, path, "is below its minimum");
	if (maximum != NULL && DatumGetBool(DirectFunctionCall2(
							   numeric_gt, NumericGetDatum(value->val.numeric),
							   NumericGetDatum(maximum->val.numeric))))
		tq_problem(problems, path, "is above its maximum");
}

static void
apply_pattern(JsonbContainer *schema, JsonbValue *value, const char *path,
			  TqDefinitionProblems *problems)
{
	JsonbValue *pattern = keyword(schema, "pattern");
	bool        matches;
	char       *wrong;

	if (pattern == NULL || value->type != jbvString)
		return;
	if (!tq_value_like(
			pnstrdup(pattern->val.string.val, pattern->val.string.len),
			pnstrdup(value->val.string.val, value->val.string.len), &matches,
			&wrong))
		tq_problem(problems, path, "%s", wrong);
	else if (!matches)
		tq_problem(problems, path, "does not match its pattern");
}

static void
apply_members(JsonbContainer *schema, JsonbValue *value, const char *path,
			  TqDefinitionProblems *problems)
{
	JsonbValue    *required = keyword(schema, "required");
	JsonbValue    *properties = keyword(schema, "properties");
	JsonbIterator *it;
	TqMembers      members;
	JsonbValue     key;
	JsonbValue     member;

	if (!tq_json_is_object(value))
		return;
	if (required != NULL)
	{
		it = JsonbIteratorInit(required->val.binary.data);
		(void) JsonbIteratorNext(&it, &key, false);
		while (JsonbIteratorNext(&it, &key, true) == WJB_ELEM)
		{
			if (getKeyJsonValueFromContainer(value->val.binary.data,
											 key.val.string.val,
											 key.val.string.len, NULL) == NULL)
				tq_problem(problems,
						   psprintf("%s.%.*s", path, key.val.string.len,
									key.val.string.val),
						   "is missing");
		}
	}
	if (properties == NULL)
		return;
	tq_member_list_begin(&members, properties->val.binary.data, path);
	while (tq_member_list_next(&members, &member))
	{
		JsonbValue *found = getKeyJsonValueFromContainer(
			value->val.binary.data, members.name, strlen(members.name), NULL);

		if (found != NULL)
			apply(member.val.binary.data, found, members.path, problems);
	}
}

static void
apply_items(JsonbContainer *schema, JsonbValue *value, const char *path,
			TqDefinitionProblems *problems)
{
	JsonbValue    *items = keyword(schema, "items");
	JsonbIterator *it;
	JsonbValue     entry;
	int            n = 0;

	if (items == NULL || !tq_json_is_list(value))
		return;
	it = JsonbIteratorInit(value->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
		apply(items->val.binary.data, &entry, psprintf("%s[%d]", path, n++),
			  problems);
}

static bool
is_of_type(JsonbValue *value, const char *type, int length)
{
	char *word = pnstrdup(type, length);
	int64 whole;

	if (strcmp(word, "object") == 0)
		return tq_json_is_object(value);
	if (strcmp(word, "array") == 0)
		return tq_json_is_list(value);
	if (strcmp(word, "string") == 0)
		return value->type == jbvString;
	if (strcmp(word, "number") == 0)
		return value->type == jbvNumeric;
	if (strcmp(word, "boolean") == 0)
		return value->type == jbvBool;
	if (strcmp(word, "null") == 0)
		return value->type == jbvNull;
	return value->type == jbvNumeric &&
		   (tq_value_whole(value->val.numeric, &whole) ||
			DatumGetBool(DirectFunctionCall2(
				numeric_eq, NumericGetDatum(value->val.numeric),
				DirectFunctionCall1(numeric_floor,
									NumericGetDatum(value->val.numeric)))));
}

static JsonbValue *
keyword(JsonbContainer *schema, const char *word)
{
	return getKeyJsonValueFromContainer(schema, word, (int) strlen(word),
										NULL);
}
