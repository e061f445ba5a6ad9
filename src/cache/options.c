/*
 * options.c
 *		Options of a queue: one table of names and reader functions.
 *
 * Options are stored as the user gave them, in one jsonb object, and read into
 * TqOptions when a session first uses the queue: first the options of queue
 * '*', then those of the queue.  The same functions check a user's document,
 * so everything stored can be read.  If a row was written by hand and is
 * invalid, using the queue raises the same error as setting the option.
 *
 * A task may have its own values for some of the options; they are stored and
 * read in the same way, and override those of its queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/json.h"
#include "base/span.h"
#include "base/try.h"
#include "cache/options.h"
#include "shared/shmem.h"

typedef void OptionReader(TqOptions *options, const char *name,
						  JsonbValue *value);

typedef struct OptionDef
{
	const char   *name;
	const char   *allowed; /* for the hint; words in the order of their enum */
	OptionReader *read;
	int           of; /* OF_QUEUE, OF_TASK or both */
} OptionDef;

/* An interval being parsed */
typedef struct SpanText
{
	const char *text;
	Interval   *interval;
} SpanText;

#define OF_QUEUE 1
#define OF_TASK 2
#define OF_BOTH (OF_QUEUE | OF_TASK)

static OptionReader read_priority, read_max_attempts, read_retry,
	read_retry_base, read_retry_cap, read_retry_list, read_retry_jitter,
	read_lease, read_time_limit, read_order, read_key_policy,
	read_max_running_per_key, read_max_payload, read_retention,
	read_retention_dead, read_max_running, read_rate_limit, read_max_depth,
	read_reference_window, read_on_worker_death, read_dead_letter_queue,
	read_notify, read_history, read_claim_durability, read_expect_workers,
	read_executor, read_redact, read_deadline_in;

static const OptionDef option_defs[] = {
	{"priority", "an integer from -32768 to 32767", read_priority, OF_QUEUE},
	{"max_attempts", "an integer of at least 1, or -1 for any number",
	 read_max_attempts, OF_QUEUE},
	{"retry", "exponential, linear, fixed, list", read_retry, OF_BOTH},
	{"retry_base", "an interval with a unit, such as \"1 s\"", read_retry_base,
	 OF_BOTH},
	{"retry_cap", "an interval with a unit, such as \"5 min\"", read_retry_cap,
	 OF_BOTH},
	{"retry_list", "a list of 1 to 100 intervals with units", read_retry_list,
	 OF_BOTH},
	{"retry_jitter", "a number from 0 to 1", read_retry_jitter, OF_BOTH},
	{"lease", "a positive interval with a unit, such as \"5 min\"", read_lease,
	 OF_BOTH},
	{"time_limit", "a positive interval with a unit, such as \"1 h\"",
	 read_time_limit, OF_BOTH},
	{"order", "fifo, lifo, random", read_order, OF_QUEUE},
	{"key_policy",
	 "none, serial, serial_hold_on_failure, serial_until_success",
	 read_key_policy, OF_QUEUE},
	{"max_running", "an integer of at least 1", read_max_running, OF_QUEUE},
	{"max_running_per_key", "an integer of at least 1",
	 read_max_running_per_key, OF_QUEUE},
	{"rate_limit",
	 "an object such as {\"count\": 100, \"per\": \"1 s\"}, with a count of 1 "
	 "to 1000000000",
	 read_rate_limit, OF_QUEUE},
	{"max_depth", "an integer of at least 1", read_max_depth, OF_QUEUE},
	{"max_payload", "a number of bytes from 1 to 268435456", read_max_payload,
	 OF_QUEUE},
	{"retention", "an interval with a unit, forever, none", read_retention,
	 OF_BOTH},
	{"retention_dead", "a positive interval with a unit, forever",
	 read_retention_dead, OF_QUEUE},
	{"reference_window", "a positive interval with a unit, forever",
	 read_reference_window, OF_BOTH},
	{"on_worker_death", "requeue, hold, kill", read_on_worker_death, OF_BOTH},
	{"dead_letter_queue", "the name of a queue", read_dead_letter_queue,
	 OF_QUEUE},
	{"notify", "true, false", read_notify, OF_QUEUE},
	{"history", "none, transitions", read_history, OF_QUEUE},
	{"claim_durability", "flushed, deferred", read_claim_durability, OF_QUEUE},
	{"expect_workers", "true, false", read_expect_workers, OF_QUEUE},
	{"executor", "an object such as {\"workers\": 2}, with 1 to 1000 workers",
	 read_executor, OF_QUEUE},
	{"redact", TQ_REDACTION_ALLOWED, read_redact, OF_QUEUE},
	{"deadline_in", "a positive interval with a unit, such as \"1 h\"",
	 read_deadline_in, OF_TASK},
};

static const OptionDef *find_option(const char *name);
static void             read_all(TqOptions *options, Jsonb *doc, int of);
static void   read_one(TqOptions *options, const char *name, JsonbValue *value,
					   int of);
static void   bad_value(const char *name) pg_attribute_noreturn();
static char  *option_string(const char *name, JsonbValue *value);
static int    option_word(const char *name, JsonbValue *value);
static double option_number(const char *name, JsonbValue *value, double min,
							double max, bool whole);
static int64  option_span(const char *name, JsonbValue *value, int64 min);
static int64  option_length(const char *name, JsonbValue *value, int64 min);
static int64  parse_span(const char *name, const char *text, int64 min);
static void   read_interval(void *arg);

void
tq_options_default(TqOptions *options)
{
	memset(options, 0, sizeof(*options));
	options->max_attempts = 3;
	options->backoff.retry = TQ_RETRY_EXPONENTIAL;
	options->backoff.base = USECS_PER_SEC;
	options->backoff.cap = 5 * USECS_PER_MINUTE;
	options->lease = 5 * USECS_PER_MINUTE;
	options->order = TQ_ORDER_FIFO;
	options->max_payload = 1024 * 1024;
}

/*
 * Apply the options of the document, which replace options already set.  Lists
 * are allocated in the current memory context.
 */
void
tq_options_read(TqOptions *options, Jsonb *doc)
{
	read_all(options, doc, OF_QUEUE);
}

/* Apply the options of a task, which replace the options of its queue. */
void
tq_options_read_task(TqOptions *options, Jsonb *doc)
{
	read_all(options, doc, OF_TASK);
	if (tq_options_lack_list(options))
		tq_error_invalid_option("retry",
								"is \"list\" without a \"retry_list\"",
								"Give both options.");
}

/* One option of a task. */
void
tq_options_read_own(TqOptions *options, const char *name, JsonbValue *value)
{
	read_one(options, name, value, OF_TASK);
}

/* Does the retry policy use a list that is missing? */
bool
tq_options_lack_list(const TqOptions *options)
{
	return options->backoff.retry == TQ_RETRY_LIST &&
		   options->backoff.list_length == 0;
}

/* The allowed values of a supported option, as text. */
const char *
tq_options_allowed(const char *name)
{
	return find_option(name)->allowed;
}

static void
read_all(TqOptions *options, Jsonb *doc, int of)
{
	JsonbIterator     *it;
	JsonbValue         key;
	JsonbValue         value;
	JsonbIteratorToken token;

	if (!JB_ROOT_IS_OBJECT(doc))
		tq_error_invalid("options", "must be a JSON object", NULL);
	it = JsonbIteratorInit(&doc->root);
	token = JsonbIteratorNext(&it, &key, false);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);

		token = JsonbIteratorNext(&it, &value, true);
		read_one(options, name, &value, of);
	}
}

/* Raise TQ009 for a document that is too large to be examined. */
void
tq_options_check_size(Jsonb *doc)
{
	if (VARSIZE(doc) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("options", VARSIZE(doc), TQ_MAX_SMALL_DOC);
}

/*
 * The options after a change: a member of changes replaces the old one, and
 * null removes it.  Every member is checked; defaults are those of queue '*'.
 */
Jsonb *
tq_options_merge(Jsonb *before, Jsonb *changes, const TqOptions *defaults)
{
	TqOptions checked;
	Datum     merged;

	tq_options_default(&checked);
	tq_options_check_size(changes);
	tq_options_read(&checked, changes);
	if (checked.max_running > 0)
		tq_shmem_require("queue option \"max_running\"");
	if (checked.rate.count > 0)
		tq_shmem_require("queue option \"rate_limit\"");
	if (checked.max_depth > 0)
		tq_shmem_require("queue option \"max_depth\"");
	if (checked.notify)
		tq_shmem_require("queue option \"notify\"");
	if (checked.executors > 0)
		tq_shmem_require("queue option \"executor\"");
	merged = DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(before),
								 JsonbPGetDatum(changes));
	merged = DirectFunctionCall1(jsonb_strip_nulls, merged);
	checked = *defaults;
	tq_options_read(&checked, DatumGetJsonbP(merged));
	if (tq_options_lack_list(&checked))
		tq_error_invalid_option("retry",
								"is \"list\" without a \"retry_list\"",
								"Give both options.");
	return DatumGetJsonbP(merged);
}

static const OptionDef *
find_option(const char *name)
{
	for (int i = 0; i < lengthof(option_defs); i++)
	{
		if (strcmp(option_defs[i].name, name) == 0)
			return &option_defs[i];
	}
	return NULL;
}

static void
read_one(TqOptions *options, const char *name, JsonbValue *value, int of)
{
	const OptionDef *def = find_option(name);

	if (def == NULL || (def->of & of) == 0)
	{
		StringInfoData all;

		initStringInfo(&all);
		for (int i = 0; i < lengthof(option_defs); i++)
		{
			if (option_defs[i].of & of)
				appendStringInfo(&all, "%s%s", all.len > 0 ? ", " : "",
								 option_defs[i].name);
		}
		tq_error_invalid_option(name, "does not exist",
								psprintf("Options are: %s.", all.data));
	}
	if (value->type == jbvNull)
		return;
	def->read(options, name, value);
}

static void
bad_value(const char *name)
{
	const OptionDef *def = find_option(name);

	tq_error_invalid_option(name, "has a value that is not allowed",
							psprintf("Allowed: %s.", def->allowed));
}

static char *
option_string(const char *name, JsonbValue *value)
{
	if (value->type != jbvString)
		bad_value(name);
	return pnstrdup(value->val.string.val, value->val.string.len);
}

/* The position of the word in the list of allowed words. */
static int
option_word(const char *name, JsonbValue *value)
{
	char *word = option_string(name, value);
	char *all = pstrdup(find_option(name)->allowed);
	int   place = 0;

	for (char *one = strtok(all, ", "); one != NULL; one = strtok(NULL, ", "))
	{
		if (strcmp(word, one) == 0)
			return place;
		place++;
	}
	bad_value(name);
}

static double
option_number(const char *name, JsonbValue *value, double min, double max,
			  bool whole)
{
	double number;

	if (value->type != jbvNumeric)
		bad_value(name);
	number = DatumGetFloat8(DirectFunctionCall1(
		numeric_float8_no_overflow, NumericGetDatum(value->val.numeric)));
	if (!(number >= min && number <= max))
		bad_value(name);
	if (whole && number != (double) (int64) number)
		bad_value(name);
	return number;
}

static int64
option_span(const char *name, JsonbValue *value, int64 min)
{
	return parse_span(name, option_string(name, value), min);
}

/* The length in microseconds, for options used in arithmetic. */
static int64
option_length(const char *name, JsonbValue *value, int64 min)
{
	return tq_span_length(option_span(name, value, min));
}

/*
 * Read an interval.  A number without a unit is refused, since it would mean
 * seconds in one place and milliseconds in another.  Other sessions read the
 * text that this session stores, so the session's IntervalStyle is ignored.
 */
static int64
parse_span(const char *name, const char *text, int64 min)
{
	SpanText reading = {text, NULL};
	double   length;
	int64    span;

	if (strspn(text, "+-.0123456789 ") == strlen(text) ||
		tq_try(read_interval, &reading) != NULL)
		bad_value(name);
	length = tq_span_read(reading.interval, &span);
	if (length < (double) min || length > (double) TQ_MAX_SPAN)
		bad_value(name);
	return span;
}

static void
read_interval(void *arg)
{
	SpanText *reading = arg;
	int       style = IntervalStyle;

	IntervalStyle = INTSTYLE_POSTGRES;
	PG_TRY();
	{
		reading->interval = DatumGetIntervalP(DirectFunctionCall3(
			interval_in, CStringGetDatum(reading->text),
			ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	}
	PG_FINALLY();
	{
		IntervalStyle = style;
	}
	PG_END_TRY();
}

static void
read_priority(TqOptions *options, const char *name, JsonbValue *value)
{
	options->priority =
		(int) option_number(name, value, PG_INT16_MIN, PG_INT16_MAX, true);
}

static void
read_max_attempts(TqOptions *options, const char *name, JsonbValue *value)
{
	int number = (int) option_number(name, value, -1, PG_INT32_MAX, true);

	if (number == 0)
		bad_value(name);
	options->max_attempts = number;
}

static void
read_retry(TqOptions *options, const char *name, JsonbValue *value)
{
	options->backoff.retry = (TqRetry) option_word(name, value);
}

static void
read_retry_base(TqOptions *options, const char *name, JsonbValue *value)
{
	options->backoff.base = option_length(name, value, 0);
}

static void
read_retry_cap(TqOptions *options, const char *name, JsonbValue *value)
{
	options->backoff.cap = option_length(name, value, 0);
}

static void
read_retry_list(TqOptions *options, const char *name, JsonbValue *value)
{
	JsonbIterator     *it;
	JsonbValue         entry;
	JsonbIteratorToken token;
	int                count = 0;
	int64              list[100];

	if (!tq_json_is_list(value))
		bad_value(name);
	it = JsonbIteratorInit(value->val.binary.data);
	token = JsonbIteratorNext(&it, &entry, false);
	while ((token = JsonbIteratorNext(&it, &entry, true)) == WJB_ELEM)
	{
		if (count >= lengthof(list))
			bad_value(name);
		list[count++] = option_length(name, &entry, 0);
	}
	if (count == 0)
		bad_value(name);
	options->backoff.list = palloc(sizeof(int64) * count);
	memcpy(options->backoff.list, list, sizeof(int64) * count);
	options->backoff.list_length = count;
}

static void
read_retry_jitter(TqOptions *options, const char *name, JsonbValue *value)
{
	options->backoff.jitter = option_number(name, value, 0, 1, false);
}

static void
read_lease(TqOptions *options, const char *name, JsonbValue *value)
{
	options->lease = option_span(name, value, 1);
}

static void
read_time_limit(TqOptions *options, const char *name, JsonbValue *value)
{
	options->time_limit = option_span(name, value, 1);
}

static void
read_order(TqOptions *options, const char *name, JsonbValue *value)
{
	options->order = (TqOrder) option_word(name, value);
}

static void
read_key_policy(TqOptions *options, const char *name, JsonbValue *value)
{
	options->key_policy = (TqKeyPolicy) option_word(name, value);
}

static void
read_max_running_per_key(TqOptions *options, const char *name,
						 JsonbValue *value)
{
	options->max_running_per_key =
		(int) option_number(name, value, 1, PG_INT32_MAX, true);
}

static void
read_max_payload(TqOptions *options, const char *name, JsonbValue *value)
{
	options->max_payload =
		(int) option_number(name, value, 1, 256 * 1024 * 1024, true);
}

static void
read_retention(TqOptions *options, const char *name, JsonbValue *value)
{
	char *word;

	/* 0 needs no unit: it means no retention */
	if (value->type == jbvNumeric)
	{
		(void) option_number(name, value, 0, 0, true);
		options->retention.keep = TQ_KEEP_NONE;
		return;
	}
	word = option_string(name, value);
	if (strcmp(word, "none") == 0 || strcmp(word, "0") == 0)
		options->retention.keep = TQ_KEEP_NONE;
	else if (strcmp(word, "forever") == 0)
		options->retention.keep = TQ_KEEP_FOREVER;
	else
	{
		options->retention.span = parse_span(name, word, 0);
		options->retention.keep = options->retention.span == 0 ? TQ_KEEP_NONE
															   : TQ_KEEP_SPAN;
	}
}

static void
read_retention_dead(TqOptions *options, const char *name, JsonbValue *value)
{
	char *word = option_string(name, value);

	if (strcmp(word, "forever") == 0)
		options->retention_dead.keep = TQ_KEEP_FOREVER;
	else
	{
		options->retention_dead.span = parse_span(name, word, 1);
		options->retention_dead.keep = TQ_KEEP_SPAN;
	}
}

static void
read_max_running(TqOptions *options, const char *name, JsonbValue *value)
{
	options->max_running =
		(int) option_number(name, value, 1, PG_INT32_MAX, true);
}

static void
read_rate_limit(TqOptions *options, const char *name, JsonbValue *value)
{
	JsonbContainer *object;
	JsonbValue     *count;
	JsonbValue     *per;

	if (!tq_json_is_object(value))
		bad_value(name);
	object = value->val.binary.data;
	count = getKeyJsonValueFromContainer(object, "count", 5, NULL);
	per = getKeyJsonValueFromContainer(object, "per", 3, NULL);
	if (count == NULL || per == NULL || JsonContainerSize(object) != 2)
		bad_value(name);
	options->rate.count = option_number(name, count, 1, 1e9, true);
	options->rate.per = (double) option_length(name, per, 1);
}

static void
read_max_depth(TqOptions *options, const char *name, JsonbValue *value)
{
	options->max_depth = (int64) option_number(
		name, value, 1, (double) (INT64CONST(1) << 53), true);
}

static void
read_reference_window(TqOptions *options, const char *name, JsonbValue *value)
{
	char *word = option_string(name, value);

	if (strcmp(word, "forever") == 0)
		options->reference_window = TQ_FOREVER;
	else
		options->reference_window = parse_span(name, word, 1);
}

static void
read_on_worker_death(TqOptions *options, const char *name, JsonbValue *value)
{
	options->on_death = (TqOnDeath) option_word(name, value);
}

static void
read_dead_letter_queue(TqOptions *options, const char *name, JsonbValue *value)
{
	char *word = option_string(name, value);

	if (strcmp(word, "*") == 0 || !tq_arg_word_is_valid(word, TQ_MAX_NAME))
		bad_value(name);
	options->dead_letter_queue = word;
}

static void
read_notify(TqOptions *options, const char *name, JsonbValue *value)
{
	if (value->type != jbvBool)
		bad_value(name);
	options->notify = value->val.boolean;
}

static void
read_history(TqOptions *options, const char *name, JsonbValue *value)
{
	options->history = option_word(name, value) == 1;
}

static void
read_claim_durability(TqOptions *options, const char *name, JsonbValue *value)
{
	options->claims_flushed = option_word(name, value) == 0;
}

/* Only taskq_health() uses it, and reads it from the row. */
static void
read_expect_workers(TqOptions *options, const char *name, JsonbValue *value)
{
	if (value->type != jbvBool)
		bad_value(name);
}

static void
read_deadline_in(TqOptions *options, const char *name, JsonbValue *value)
{
	options->deadline_in = option_span(name, value, 1);
}

/* No other member is allowed: a transaction cannot span databases. */
static void
read_executor(TqOptions *options, const char *name, JsonbValue *value)
{
	JsonbContainer *object;
	JsonbValue     *workers;

	if (!tq_json_is_object(value))
		bad_value(name);
	object = value->val.binary.data;
	workers = getKeyJsonValueFromContainer(object, "workers", 7, NULL);
	if (workers == NULL || JsonContainerSize(object) != 1)
		bad_value(name);
	options->executors = (int) option_number(name, workers, 1, 1000, true);
}

/* An empty list selects nothing, whatever queue '*' sets. */
static void
read_redact(TqOptions *options, const char *name, JsonbValue *value)
{
	options->redact = tq_redaction_read(value);
	if (options->redact == NULL)
		bad_value(name);
}
