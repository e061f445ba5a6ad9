/*
 * metric_note.h
 *		Numbers that a transaction counts for the metrics until it commits.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_METRIC_NOTE_H
#define TQ_METRIC_NOTE_H

#include "shared/metric.h"
#include "store/task.h"

/* queue 0: not of a queue */
extern void tq_metric_note_count(int32 queue_id, TqMetric metric,
								 int64 number);
extern void tq_metric_note_moved(const TqTask *task, TqState from, TqEnd end,
								 TimestampTz claimed_at);

/* for xact.c, at the ends of transactions and savepoints; cannot fail */
extern void tq_metric_note_commit(void);
extern void tq_metric_note_sub_commit(SubTransactionId mine,
									  SubTransactionId parent);
extern void tq_metric_note_sub_abort(SubTransactionId mine);
extern void tq_metric_note_forget(void);

#endif /* TQ_METRIC_NOTE_H */
