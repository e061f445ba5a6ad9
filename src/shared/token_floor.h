/*
 * token_floor.h
 *		The last tokens drawn since the server's start.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TOKEN_FLOOR_H
#define TQ_TOKEN_FLOOR_H

#include "base/compat.h"

extern uint64 tq_token_floor_start(void);
extern int64  tq_token_floor_draw(int64 task_id, int64 above);
extern void   tq_token_floor_renew(void);
extern Size   tq_token_floor_size(void);
extern void   tq_token_floor_init(void);
extern void   tq_token_floor_wipe(void);

#endif /* TQ_TOKEN_FLOOR_H */
