/*
 * submit.h
 *		The beginning of a task's way.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBMIT_H
#define TQ_SUBMIT_H

#include "core/row.h"
#include "core/queue.h"

extern void tq_submit_dead_letter(TqCall *call, const char *queue_name,
								  TqTask *origin, Jsonb *headers);

#endif /* TQ_SUBMIT_H */
