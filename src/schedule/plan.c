/*
 * plan.c
 *		The planned times of a schedule: the text that describes them, and the
 *		arithmetic.
 *
 * A plan is "at <timestamp>", "every <interval> [at <time>]" or a cron
 * expression, whose planned times only pg_cron knows.  Otherwise planned time
 * n is the anchor plus n times the interval, so that months continue from the
 * day of the anchor: after 31 January and 28 February follows 31 March.
 * Months and days are added in the time zone of the schedule, hours and less
 * to the instant, as PostgreSQL adds an interval to a timestamp with time
 * zone.
 *
 * A local time that exists twice means its second instance, as in PostgreSQL.
 * A local time that does not exist means the instant at which the clocks
 * change, the next one that exists.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "base/error.h"
#include "base/try.h"
#include "schedule/plan.h"

#define LONGEST_MONTHS (100 * MONTHS_PER_YEAR)
#define LONGEST_DAYS 36525

/* No planned time is farther away from its anchor than 100,000 years. */
#define FARTHEST (INT64CONST(36500000) * USECS_PER_DAY)

#define FORMS                                                                 \
	"Allowed: \"every <interval>\", \"every <interval> at <time>\", "         \
	"\"at <timestamp>\", and the five fields of a cron expression."

/* Input that is parsed, and its value. */
typedef struct Parse
{
	PGFunction input;
	char      *text;
	Datum      value;
} Parse;

static void        read_every(char *rest, TqPlan *plan);
static void        read_at(char *rest, const char *zone, TqPlan *plan);
static Datum       parse(PGFunction input, char *text);
static void        parse_work(void *arg);
static TimestampTz parse_in(const char *zone, char *text);
static bool        is_cron(const char *text);
static char       *skip_word(char *text, const char *word);
static char       *find_last_at(char *text);
static pg_tz      *find_zone(const char *name);
static int64       shortest(const Interval *step);
static Timestamp   to_local(TimestampTz at, pg_tz *zone);
static TimestampTz to_instant(Timestamp local, pg_tz *zone);
static void        raise_malformed(void) pg_attribute_noreturn();
static void        raise_out_of_range(void) pg_attribute_noreturn();

/*
 * Read a plan.  The anchor is when the schedule was saved; if it is not new,
 * the anchor of a plan with one time is that time, which is then not read
 * again: its meaning depends on the settings of the session.
 */
void
tq_plan_read(const char *text, const char *zone, TimestampTz anchor,
			 bool is_new, TqPlan *plan)
{
	char *copy = pstrdup(text);
	char *rest;

	memset(plan, 0, sizeof(*plan));
	plan->zone = find_zone(zone);
	plan->anchor = anchor;
	if ((rest = skip_word(copy, "every")) != NULL)
		read_every(rest, plan);
	else if ((rest = skip_word(copy, "at")) != NULL)
	{
		plan->once = true;
		if (is_new)
			read_at(rest, zone, plan);
	}
	else if (is_cron(copy))
		plan->cron = true;
	else
		raise_malformed();
}

static void
read_every(char *rest, TqPlan *plan)
{
	char *time = find_last_at(rest);

	if (time != NULL)
	{
		plan->has_time = true;
		plan->time = DatumGetTimeADT(parse(time_in, time));
		if (plan->time >= USECS_PER_DAY)
			raise_malformed();
	}
	plan->step = *DatumGetIntervalP(parse(interval_in, rest));
	if (plan->step.month < 0 || plan->step.day < 0 || plan->step.time < 0 ||
		shortest(&plan->step) < USECS_PER_SEC)
		tq_error_invalid("interval of schedule", "must be at least 1 second",
						 NULL);
	if (plan->step.month > LONGEST_MONTHS || plan->step.day > LONGEST_DAYS ||
		plan->step.time > LONGEST_DAYS * USECS_PER_DAY)
		tq_error_invalid("interval of schedule", "must be at most 100 years",
						 NULL);
}

/*
 * A timestamp with a zone of its own has the same meaning in any two zones;
 * one without is a local time.
 */
static void
read_at(char *rest, const char *zone, TqPlan *plan)
{
	TimestampTz in_utc = parse_in("UTC", rest);

	if (TIMESTAMP_NOT_FINITE(in_utc))
		tq_error_invalid("schedule", "must be a finite time", NULL);
	if (in_utc == parse_in("Etc/GMT+1", rest))
		plan->anchor = in_utc;
	else
		plan->anchor = to_instant(in_utc, plan->zone);
}

static TimestampTz
parse_in(const char *zone, char *text)
{
	int         level = NewGUCNestLevel();
	TimestampTz at;

	(void) set_config_option("TimeZone", zone, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	at = DatumGetTimestampTz(parse(timestamptz_in, text));
	AtEOXact_GUC(true, level);
	return at;
}

static Datum
parse(PGFunction input, char *text)
{
	Parse work = {input, text};

	if (tq_try(parse_work, &work) != NULL)
		raise_malformed();
	return work.value;
}

static void
parse_work(void *arg)
{
	Parse *work = arg;

	work->value = DirectFunctionCall3(work->input, CStringGetDatum(work->text),
									  ObjectIdGetDatum(InvalidOid),
									  Int32GetDatum(-1));
}

/* Does the text look like the five fields of a cron expression? */
static bool
is_cron(const char *text)
{
	int fields = 0;

	while (*text != '\0')
	{
		size_t length;

		text += strspn(text, " \t");
		length = strcspn(text, " \t");
		if (length == 0)
			break;
		if (strspn(text, "0123456789*/,-?LW#"
						 "abcdefghijklmnopqrstuvwxyz"
						 "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < length)
			return false;
		text += length;
		fields++;
	}
	return fields == 5;
}

/* Returns the text after a first word, or NULL if it begins otherwise. */
static char *
skip_word(char *text, const char *word)
{
	size_t length = strlen(word);

	text += strspn(text, " ");
	if (pg_strncasecmp(text, word, length) != 0 || text[length] != ' ')
		return NULL;
	return text + length + 1;
}

/* Cut the text before its last word "at".  Returns the text after it. */
static char *
find_last_at(char *text)
{
	for (char *at = text + strlen(text); at > text; at--)
	{
		char *rest;

		if (*at != ' ' || (rest = skip_word(at, "at")) == NULL)
			continue;
		*at = '\0';
		return rest;
	}
	return NULL;
}

static pg_tz *
find_zone(const char *name)
{
	pg_tz *zone = strlen(name) <= TZ_STRLEN_MAX ? pg_tzset(name) : NULL;

	if (zone == NULL || !pg_tz_acceptable(zone))
		tq_error_invalid("timezone", "is unknown",
						 "The view pg_timezone_names lists time zones.");
	return zone;
}

/* The least time, in microseconds, that an interval can take. */
static int64
shortest(const Interval *step)
{
	return (int64) step->month * 28 * USECS_PER_DAY +
		   (int64) step->day * USECS_PER_DAY + step->time;
}

/* Planned time n, or DT_NOEND if there is none or it is not known. */
TimestampTz
tq_plan_time(const TqPlan *plan, int64 n)
{
	Timestamp local;
	Interval  added = {0};
	int64     time;

	if (plan->cron)
		return DT_NOEND;
	if (plan->once)
		return n == 0 ? plan->anchor : DT_NOEND;
	if (n > FARTHEST / shortest(&plan->step))
		return DT_NOEND;
	time = plan->step.time * n;
	if (plan->step.month == 0 && plan->step.day == 0 && !plan->has_time)
		return plan->anchor + time;
	local = to_local(plan->anchor, plan->zone);
	if (plan->has_time)
	{
		int64 of_day = local % USECS_PER_DAY;

		if (of_day < 0)
			of_day += USECS_PER_DAY;
		local += plan->time - of_day;
	}
	added.month = (int32) (plan->step.month * n);
	added.day = (int32) (plan->step.day * n);
	local = DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval,
												  TimestampGetDatum(local),
												  IntervalPGetDatum(&added)));
	return to_instant(local, plan->zone) + time;
}

/* The number of the first planned time after the given time. */
int64
tq_plan_after(const TqPlan *plan, TimestampTz at)
{
	int64 first = 0;
	int64 last;

	if (plan->cron)
		return 0;
	if (plan->once)
		return plan->anchor > at ? 0 : 1;

	/* a time of day and a zone can shift planned times by some days */
	last = (Max(at - plan->anchor, 0) + 3 * USECS_PER_DAY) /
			   shortest(&plan->step) +
		   4;
	while (first < last)
	{
		int64 middle = first + (last - first) / 2;

		if (tq_plan_time(plan, middle) > at)
			last = middle;
		else
			first = middle + 1;
	}
	return first;
}

static Timestamp
to_local(TimestampTz at, pg_tz *zone)
{
	struct pg_tm tm;
	fsec_t       fsec;
	int          offset;
	Timestamp    local;

	if (timestamp2tm(at, &offset, &tm, &fsec, NULL, zone) != 0 ||
		tm2timestamp(&tm, fsec, NULL, &local) != 0)
		raise_out_of_range();
	return local;
}

static TimestampTz
to_instant(Timestamp local, pg_tz *zone)
{
	struct pg_tm tm;
	fsec_t       fsec;
	int          offset;
	TimestampTz  at;
	Timestamp    gap;

	if (timestamp2tm(local, NULL, &tm, &fsec, NULL, NULL) != 0)
		raise_out_of_range();
	offset = DetermineTimeZoneOffset(&tm, zone);
	if (tm2timestamp(&tm, fsec, &offset, &at) != 0)
		raise_out_of_range();
	gap = to_local(at, zone) - local;
	if (gap > 0)
	{
		/* the clocks were changed less than the gap before */
		pg_time_t from = timestamptz_to_time_t(at - gap);
		pg_time_t change;
		long      before;
		long      after;
		int       is_dst;

		if (pg_next_dst_boundary(&from, &before, &is_dst, &change, &after,
								 &is_dst, zone) > 0)
			at = Min(at, time_t_to_timestamptz(change));
	}
	return at;
}

static void
raise_malformed(void)
{
	tq_error_invalid("schedule", "is malformed", FORMS);
}

static void
raise_out_of_range(void)
{
	ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					errmsg("timestamp out of range")));
}
