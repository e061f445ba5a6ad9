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
#include "shared/counter_types.h"

typedef enum TqOrder
{
	TQ_ORDER_FIFO,
	TQ_ORDER_LIFO,
	TQ_ORDER_RANDOM
} TqOrder;

typedef enum TqKeep
{
	TQ_KEEP_DEFAULT, /* as the setting taskq.retention says */
	TQ_KEEP_SPAN,
	TQ_KEEP_FOREVER,
	TQ_KEEP_NONE
} TqKeep;

typedef struct TqRetention
{
	TqKeep keep;
	int64  span; /* for TQ_KEEP_SPAN */
} TqRetention;

/* How tasks with the same key wait for each other; each does what the one
 * before does, and more. */
typedef enum TqKeyPolicy
{
	TQ_KEY_NONE,
	TQ_KEY_SERIAL,
	TQ_KEY_HOLD_ON_FAILURE,
	TQ_KEY_UNTIL_SUCCESS
} TqKeyPolicy;

/* When a worker dies or a lease is lost. */
typedef enum TqOnDeath
{
	TQ_ON_DEATH_REQUEUE,
	TQ_ON_DEATH_HOLD,
	TQ_ON_DEATH_KILL
} TqOnDeath;

#define TQ_FOREVER PG_INT64_MAX

/* Durations are those of base/span.h. */
typedef struct TqOptions
{
	int         priority;
	int         max_attempts;
	TqBackoff   backoff;
	int64       lease;
	int64       time_limit; /* 0: none */
	TqOrder     order;
	int         max_payload; /* bytes */
	TqRetention retention;
	TqRetention retention_dead;
	TqKeyPolicy key_policy;
	int         max_running;         /* 0: any number */
	int         max_running_per_key; /* 0: any number */
	TqRate      rate;                /* claims; count 0: any number */
	int64       max_depth;           /* 0: any number */
	int64       reference_window;    /* or TQ_FOREVER */
	TqOnDeath   on_death;
	char       *dead_letter_queue; /* NULL: none */
	bool        notify;            /* also NOTIFY, by the worker */
	bool        history;           /* write each transition */
	int64       deadline_in;       /* of a task only; 0: none */
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
