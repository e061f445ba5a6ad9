/*
 * cancel_request.h
 *		Which tasks of a worker were asked to stop, for its heartbeats.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CANCEL_REQUEST_H
#define TQ_CANCEL_REQUEST_H

#include "base/compat.h"

extern Datum tq_cancel_request_tasks(int32 worker_id);

#endif /* TQ_CANCEL_REQUEST_H */
