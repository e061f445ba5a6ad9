/*
 * pkey_lookup.h
 *		Lookup of rows of taskq.task by id.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PKEY_LOOKUP_H
#define TQ_PKEY_LOOKUP_H

#include "store/table.h"

extern void tq_pkey_lookup_prefetch(TqCall *call, int64 first, int64 last);
extern bool tq_pkey_lookup_find(TqTable *table, int64 task_id);
extern void tq_pkey_lookup_end(TqTable *table);

#endif /* TQ_PKEY_LOOKUP_H */
