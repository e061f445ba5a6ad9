/*
 * id.h
 *		Numbers that are never given out twice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ID_H
#define TQ_ID_H

#include "base/compat.h"

extern int64 tq_id_next(void);
extern int64 tq_id_next_token(int64 previous);
extern void  tq_id_range(Datum *lowest, Datum *highest);

#endif /* TQ_ID_H */
