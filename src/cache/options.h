/*
 * options.h
 *		Options of a queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OPTIONS_H
#define TQ_OPTIONS_H

#include "base/compat.h"

#include "utils/jsonb.h"

#include "base/backoff.h"
#include "base/redaction.h"
#include "shared/counter_types.h"

typedef enum TqOrder
{
	TQ_ORDER_FIFO,
	TQ_ORDER_LIFO,
	TQ_ORDER_RANDOM
} TqOrder;

typedef enum TqKeep
{
	TQ_KEEP_DEFAULT, /* use the setting taskq.retention */
	TQ_KEEP_SPAN,
	TQ_KEEP_FOREVER,
	TQ_KEEP_NONE
} TqKeep;

typedef struct TqRetention
{
	TqKeep keep;
	int64  span; /* for TQ_KEEP_SPAN */
} TqRetention;

/*
 * How tasks with the same key wait for each other; each policy includes the
 * one before it.
 */
typedef enum TqKeyPolicy
{
	TQ_KEY_NONE,
	TQ_KEY_SERIAL,
	TQ_KEY_HOLD_ON_FAILURE,
	TQ_KEY_UNTIL_SUCCESS
} TqKeyPolicy;

/* What happens to a task when its worker dies or its lease expires. */
typedef enum TqOnDeath
{
	TQ_ON_DEATH_REQUEUE,
	TQ_ON_DEATH_HOLD,
	TQ_ON_DEATH_KILL
} TqOnDeath;

#define TQ_FOREVER PG_INT64_MAX

/* Durations are in the format of base/span.h. */
typedef struct TqOptions
{
	int          priority;
	int          max_attempts;
	TqBackoff    backoff;
	int64        lease;
	int64        time_limit; /* 0: no limit */
	TqOrder      order;
	int          max_payload; /* bytes */
	TqRetention  retention;
	TqRetention  retention_dead;
	TqKeyPolicy  key_policy;
	int          max_running;         /* 0: no limit */
	int          max_running_per_key; /* 0: no limit */
	TqRate       rate;                /* of claims; count 0: no limit */
	int64        max_depth;           /* 0: no limit */
	int64        reference_window;    /* or TQ_FOREVER */
	TqOnDeath    on_death;
	char        *dead_letter_queue; /* NULL: no dead-letter queue */
	TqRedaction *redact;            /* contents that few see; NULL: none */
	bool         notify;            /* also NOTIFY, by the background worker */
	bool         history;           /* record each transition */
	bool         claims_flushed;    /* each claim waits for the disk */
	int          executors;         /* SQL tasks at the same time; 0: none */
	int64        deadline_in;       /* of a task only; 0: no deadline */
} TqOptions;

extern void        tq_options_default(TqOptions *options);
extern void        tq_options_read(TqOptions *options, Jsonb *doc);
extern void        tq_options_check_size(Jsonb *doc);
extern void        tq_options_read_task(TqOptions *options, Jsonb *doc);
extern void        tq_options_read_own(TqOptions *options, const char *name,
									   JsonbValue *value);
extern bool        tq_options_lack_list(const TqOptions *options);
extern const char *tq_options_allowed(const char *name);
extern Jsonb      *tq_options_merge(Jsonb *before, Jsonb *changes,
									const TqOptions *defaults);

#endif /* TQ_OPTIONS_H */
