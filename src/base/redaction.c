/*
 * redaction.c
 *		Replaces what jsonpaths select in a document by "[redacted]".
 *
 * PostgreSQL can find what a jsonpath selects, but not where it is.  So the
 * paths are restricted to steps that can be followed while a document is
 * copied: members, .*, .**, [n] and [*], in lax mode.  They select exactly
 * what PostgreSQL selects with them.
 *
 * All paths are followed at the same time.  At each value of the document, a
 * byte for each step of the paths says whether the rest of the path from this
 * step on applies to the value.  The work is bounded by the size of the
 * document times the number of steps, whatever the paths are.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonpath.h"
#include "utils/numeric.h"

#include "base/json.h"
#include "base/redaction.h"
#include "base/try.h"

#define MAX_PATHS 100
#define MAX_STEPS 1000 /* of all paths of a list */

static char redacted[] = "[redacted]";

/* Why a step applies to a value. */
#define AT_VALUE 1
/*
 * The value is an element of an array to which the step applied: lax mode
 * applies a member accessor to the elements of an array, but not to their
 * elements in turn.
 */
#define AT_ELEMENT 2

typedef enum Shape
{
	SHAPE_SCALAR,
	SHAPE_ARRAY,
	SHAPE_OBJECT
} Shape;

/* A jsonpath being parsed. */
typedef struct Parsing
{
	char     *text;
	JsonPath *path;
} Parsing;

typedef struct Walk
{
	const TqRedaction *redaction;
	JsonbParseState   *state;
	bool               changed;
} Walk;

static void parse(void *arg);
static bool add_path(TqRedaction *redaction, const char *text);
static bool read_step(JsonPathItem *item, TqRedactionStep *step);
static bool read_index(JsonPathItem *item, int32 *index);
static void add_step(TqRedaction *redaction, const TqRedactionStep *step);
static void enter(const TqRedaction *redaction, uint8 *at, int place,
				  uint8 how, Shape shape);
static bool enter_root(const TqRedaction *redaction, uint8 *at, Shape shape);
static JsonbValue *copy(Walk *walk, JsonbContainer *container,
						const uint8 *at);
static void copy_value(Walk *walk, JsonbIteratorToken token, JsonbValue *value,
					   const uint8 *at);
static void enter_member(const TqRedaction *redaction, const uint8 *at,
						 const JsonbValue *name, Shape shape, uint8 *next);
static void enter_element(const TqRedaction *redaction, const uint8 *at,
						  int32 index, Shape shape, uint8 *next);
static bool applies_any(const TqRedaction *redaction, const uint8 *at);
static bool selects(const TqRedaction *redaction, const uint8 *at);
static Shape  shape_of(const JsonbValue *value);
static Jsonb *replacement(void);

/*
 * Read a list of paths.  Returns NULL if it is not one, or if it has a path
 * that cannot be applied.
 */
TqRedaction *
tq_redaction_read(const JsonbValue *list)
{
	TqRedaction       *redaction;
	JsonbIterator     *it;
	JsonbValue         entry;
	JsonbValue         whole = *list;
	JsonbIteratorToken token;

	if (!tq_json_is_list(list) ||
		JsonContainerSize(list->val.binary.data) > MAX_PATHS)
		return NULL;
	redaction = tq_redaction_make();
	it = JsonbIteratorInit(list->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	while ((token = JsonbIteratorNext(&it, &entry, true)) == WJB_ELEM)
	{
		if (entry.type != jbvString ||
			!add_path(redaction,
					  pnstrdup(entry.val.string.val, entry.val.string.len)))
			return NULL;
	}
	if (redaction->count > MAX_STEPS)
		return NULL;
	redaction->list = JsonbValueToJsonb(&whole);
	return redaction;
}

TqRedaction *
tq_redaction_make(void)
{
	return palloc0(sizeof(TqRedaction));
}

/* It replaces whole documents. */
TqRedaction *
tq_redaction_of_all(void)
{
	TqRedaction    *redaction = tq_redaction_make();
	TqRedactionStep end = {TQ_REDACT_END};

	add_step(redaction, &end);
	return redaction;
}

/* A copy in the current memory context, without the list. */
TqRedaction *
tq_redaction_copy(const TqRedaction *redaction)
{
	TqRedaction *result = tq_redaction_make();

	tq_redaction_add(result, redaction, NULL, 0);
	for (int i = 0; i < result->count; i++)
	{
		TqRedactionStep *step = &result->steps[i];

		if (step->kind == TQ_REDACT_KEY)
			step->name = pnstrdup(step->name, step->length);
	}
	return result;
}

/* Add the paths of another redaction, each behind the given steps. */
void
tq_redaction_add(TqRedaction *redaction, const TqRedaction *more,
				 const TqRedactionStep *before, int count)
{
	bool begins = true;

	for (int i = 0; i < more->count; i++)
	{
		for (int j = 0; begins && j < count; j++)
			add_step(redaction, &before[j]);
		add_step(redaction, &more->steps[i]);
		begins = more->steps[i].kind == TQ_REDACT_END;
	}
}

static bool
add_path(TqRedaction *redaction, const char *text)
{
	Parsing         parsing = {pstrdup(text)};
	JsonPathItem    item;
	JsonPathItem    next;
	TqRedactionStep step = {TQ_REDACT_END};
	bool            more;

	if (tq_try(parse, &parsing) != NULL ||
		(parsing.path->header & JSONPATH_LAX) == 0)
		return false;
	jspInit(&item, parsing.path);
	if (item.type != jpiRoot)
		return false;
	for (more = jspGetNext(&item, &next); more;
		 more = jspGetNext(&item, &next))
	{
		if (!read_step(&next, &step))
			return false;
		add_step(redaction, &step);
		item = next;
	}
	step.kind = TQ_REDACT_END;
	add_step(redaction, &step);
	return true;
}

static void
parse(void *arg)
{
	Parsing *parsing = arg;

	parsing->path = DatumGetJsonPathP(
		DirectFunctionCall1(jsonpath_in, CStringGetDatum(parsing->text)));
}

static bool
read_step(JsonPathItem *item, TqRedactionStep *step)
{
	switch (item->type)
	{
		case jpiKey:
			step->kind = TQ_REDACT_KEY;
			step->name = jspGetString(item, &step->length);
			return true;
		case jpiAnyKey:
			step->kind = TQ_REDACT_ANY_KEY;
			return true;
		case jpiAnyArray:
			step->kind = TQ_REDACT_ANY_ELEMENT;
			return true;
		case jpiIndexArray:
			step->kind = TQ_REDACT_ELEMENT;
			return read_index(item, &step->index);
		case jpiAny:
			step->kind = TQ_REDACT_DEEP;
			return item->content.anybounds.first == 0 &&
				   item->content.anybounds.last == PG_UINT32_MAX;
		default:
			return false;
	}
}

/* Only one number is allowed, as it is written. */
static bool
read_index(JsonPathItem *item, int32 *index)
{
	JsonPathItem from;
	JsonPathItem to;
	char        *text;

	if (item->content.array.nelems != 1 ||
		jspGetArraySubscript(item, &from, &to, 0) || from.type != jpiNumeric ||
		jspHasNext(&from))
		return false;
	text = DatumGetCString(DirectFunctionCall1(
		numeric_out, NumericGetDatum(jspGetNumeric(&from))));
	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 9)
		return false;
	*index = atoi(text);
	return true;
}

static void
add_step(TqRedaction *redaction, const TqRedactionStep *step)
{
	if (redaction->count == redaction->room)
	{
		Size size;

		redaction->room = Max(16, redaction->room * 2);
		size = sizeof(TqRedactionStep) * redaction->room;
		redaction->steps = redaction->steps == NULL
							   ? palloc(size)
							   : repalloc(redaction->steps, size);
	}
	redaction->steps[redaction->count++] = *step;
}

/*
 * Return the document, with each value that a path selects replaced by
 * "[redacted]".
 */
Jsonb *
tq_redaction_apply(const TqRedaction *redaction, Jsonb *doc)
{
	Walk        walk = {redaction};
	uint8      *at;
	JsonbValue *whole;
	Shape       shape = JB_ROOT_IS_SCALAR(doc)   ? SHAPE_SCALAR
						: JB_ROOT_IS_OBJECT(doc) ? SHAPE_OBJECT
												 : SHAPE_ARRAY;

	if (redaction->count == 0)
		return doc;
	at = palloc0(redaction->count);
	if (enter_root(redaction, at, shape))
		return replacement();
	if (shape == SHAPE_SCALAR)
		return doc;
	whole = copy(&walk, &doc->root, at);
	return walk.changed ? JsonbValueToJsonb(whole) : doc;
}

/* Returns true if the whole document is selected. */
static bool
enter_root(const TqRedaction *redaction, uint8 *at, Shape shape)
{
	bool begins = true;

	for (int i = 0; i < redaction->count; i++)
	{
		if (begins)
			enter(redaction, at, i, AT_VALUE, shape);
		begins = redaction->steps[i].kind == TQ_REDACT_END;
	}
	return selects(redaction, at);
}

/*
 * A step applies to a value.  If it can also select the value itself, so does
 * the next step: .** includes the value, and lax mode treats a value that is
 * no array as an array with this element.
 */
static void
enter(const TqRedaction *redaction, uint8 *at, int place, uint8 how,
	  Shape shape)
{
	for (;;)
	{
		const TqRedactionStep *step = &redaction->steps[place];
		bool                   alone = shape != SHAPE_ARRAY;

		at[place] |= how;
		if (step->kind != TQ_REDACT_DEEP &&
			!(step->kind == TQ_REDACT_ANY_ELEMENT && alone) &&
			!(step->kind == TQ_REDACT_ELEMENT && alone && step->index == 0))
			return;
		place++;
		how = AT_VALUE;
	}
}

/* Copy a container; at says which steps apply to it. */
static JsonbValue *
copy(Walk *walk, JsonbContainer *container, const uint8 *at)
{
	const TqRedaction *redaction = walk->redaction;
	uint8             *next = palloc(redaction->count);
	JsonbIterator     *it = JsonbIteratorInit(container);
	JsonbValue         value;
	JsonbValue         name = {.type = jbvNull};
	JsonbValue        *result = NULL;
	JsonbIteratorToken token;
	int32              index = 0;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	token = JsonbIteratorNext(&it, &value, true);
	(void) pushJsonbValue(&walk->state, token, NULL);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		memset(next, 0, redaction->count);
		switch (token)
		{
			case WJB_KEY:
				name = value;
				(void) pushJsonbValue(&walk->state, token, &value);
				break;
			case WJB_VALUE:
				enter_member(redaction, at, &name, shape_of(&value), next);
				copy_value(walk, token, &value, next);
				break;
			case WJB_ELEM:
				enter_element(redaction, at, index++, shape_of(&value), next);
				copy_value(walk, token, &value, next);
				break;
			default:
				result = pushJsonbValue(&walk->state, token, NULL);
				break;
		}
	}
	pfree(next);
	return result;
}

static void
copy_value(Walk *walk, JsonbIteratorToken token, JsonbValue *value,
		   const uint8 *at)
{
	JsonbValue put;

	if (selects(walk->redaction, at))
	{
		walk->changed = true;
		put.type = jbvString;
		put.val.string.val = redacted;
		put.val.string.len = (int) strlen(redacted);
		(void) pushJsonbValue(&walk->state, token, &put);
	}
	else if (value->type == jbvBinary && applies_any(walk->redaction, at))
		(void) copy(walk, value->val.binary.data, at);
	else
		(void) pushJsonbValue(&walk->state, token, value);
}

/* Find the steps that apply to a member of an object. */
static void
enter_member(const TqRedaction *redaction, const uint8 *at,
			 const JsonbValue *name, Shape shape, uint8 *next)
{
	for (int i = 0; i < redaction->count; i++)
	{
		const TqRedactionStep *step = &redaction->steps[i];

		if (at[i] == 0)
			continue;
		if (step->kind == TQ_REDACT_DEEP)
			enter(redaction, next, i, AT_VALUE, shape);
		else if (step->kind == TQ_REDACT_ANY_KEY ||
				 (step->kind == TQ_REDACT_KEY &&
				  step->length == name->val.string.len &&
				  memcmp(step->name, name->val.string.val, step->length) == 0))
			enter(redaction, next, i + 1, AT_VALUE, shape);
	}
}

/* Find the steps that apply to an element of an array. */
static void
enter_element(const TqRedaction *redaction, const uint8 *at, int32 index,
			  Shape shape, uint8 *next)
{
	for (int i = 0; i < redaction->count; i++)
	{
		const TqRedactionStep *step = &redaction->steps[i];

		if (at[i] == 0)
			continue;
		if (step->kind == TQ_REDACT_DEEP)
			enter(redaction, next, i, AT_VALUE, shape);
		else if (step->kind == TQ_REDACT_ANY_ELEMENT ||
				 (step->kind == TQ_REDACT_ELEMENT && step->index == index))
			enter(redaction, next, i + 1, AT_VALUE, shape);
		else if ((step->kind == TQ_REDACT_KEY ||
				  step->kind == TQ_REDACT_ANY_KEY) &&
				 (at[i] & AT_VALUE) != 0)
			enter(redaction, next, i, AT_ELEMENT, shape);
	}
}

/* Does any step apply? */
static bool
applies_any(const TqRedaction *redaction, const uint8 *at)
{
	for (int i = 0; i < redaction->count; i++)
	{
		if (at[i] != 0)
			return true;
	}
	return false;
}

/* Has any path come to its end? */
static bool
selects(const TqRedaction *redaction, const uint8 *at)
{
	for (int i = 0; i < redaction->count; i++)
	{
		if (at[i] != 0 && redaction->steps[i].kind == TQ_REDACT_END)
			return true;
	}
	return false;
}

static Shape
shape_of(const JsonbValue *value)
{
	if (value->type != jbvBinary)
		return SHAPE_SCALAR;
	return JsonContainerIsObject(value->val.binary.data) ? SHAPE_OBJECT
														 : SHAPE_ARRAY;
}

static Jsonb *
replacement(void)
{
	JsonbValue value;

	value.type = jbvString;
	value.val.string.val = redacted;
	value.val.string.len = (int) strlen(redacted);
	return JsonbValueToJsonb(&value);
}
