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
	int64  span; /* microseconds, for TQ_KEEP_SPAN */
} TqRetention;

typedef struct TqOptions
{
	int         priority;
	int         max_attempts;
	TqBackoff   backoff;
	int64       lease;      /* microseconds */
	int64       time_limit; /* microseconds; 0 is none */
	TqOrder     order;
	int         max_payload; /* bytes */
	TqRetention retention;
	TqRetention retention_dead;
} TqOptions;

extern void   tq_options_default(TqOptions *options);
extern void   tq_options_read(TqOptions *options, Jsonb *doc);
extern Jsonb *tq_options_merge(Jsonb *before, Jsonb *changes);

#endif /* TQ_OPTIONS_H */
