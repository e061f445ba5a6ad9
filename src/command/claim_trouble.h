/*
 * claim_trouble.h
 *		Queues that a claim from all queues cannot claim from.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_TROUBLE_H
#define TQ_CLAIM_TROUBLE_H

#include "cache/queue.h"
#include "engine/worker.h"

extern bool tq_claim_trouble_check(const TqQueue  *queue,
								   const TqWorker *worker);
extern bool tq_claim_trouble_met(const char *name);
extern void tq_claim_trouble_note(const char *name, bool met_error);
extern void tq_claim_trouble_survive(const char *name, ErrorData *error);

#endif /* TQ_CLAIM_TROUBLE_H */
