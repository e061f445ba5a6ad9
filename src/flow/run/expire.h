/*
 * expire.h
 *		Removes instances whose retention has expired.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPIRE_H
#define TQ_EXPIRE_H

extern int64 tq_expire_run(int limit);

#endif /* TQ_EXPIRE_H */
