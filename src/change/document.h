/*
 * document.h
 *		Documents that tasks share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DOCUMENT_H
#define TQ_DOCUMENT_H

#include "change/change_set.h"

extern void tq_document_lock(TqChange *change);
extern void tq_document_check(TqChange *change);
extern void tq_document_apply(TqChange *change);

#endif /* TQ_DOCUMENT_H */
