/*
 * document.h
 *		Documents that tasks share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DOCUMENT_H
#define TQ_DOCUMENT_H

#include "change/change.h"

extern void tq_doc_lock(TqChange *change);
extern void tq_doc_check(TqChange *change);
extern void tq_doc_apply(TqChange *change);

#endif /* TQ_DOCUMENT_H */
