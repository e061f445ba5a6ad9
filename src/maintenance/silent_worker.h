/*
 * silent_worker.h
 *		Declares workers dead that have sent no heartbeat for too long.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SILENT_WORKER_H
#define TQ_SILENT_WORKER_H

/* the duty, inside a transaction */
extern int64 tq_silent_worker_end(int limit);

#endif /* TQ_SILENT_WORKER_H */
