/*
 * error.h
 *		The errors of the contract, each raised in one place.
 *
 * DETAIL of every error of class TQ is one JSON object.  These functions do
 * not return.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ERROR_H
#define TQ_ERROR_H

#include "base/types.h"

#define ERRCODE_TQ_LEASE_LOST MAKE_SQLSTATE('T', 'Q', '0', '0', '1')
#define ERRCODE_TQ_NO_SUCH_TASK MAKE_SQLSTATE('T', 'Q', '0', '0', '2')
#define ERRCODE_TQ_NO_SUCH_QUEUE MAKE_SQLSTATE('T', 'Q', '0', '0', '3')
#define ERRCODE_TQ_INVALID_OPTION MAKE_SQLSTATE('T', 'Q', '0', '0', '4')
#define ERRCODE_TQ_INVALID_TRANSITION MAKE_SQLSTATE('T', 'Q', '0', '0', '5')
#define ERRCODE_TQ_ALREADY_EXISTS MAKE_SQLSTATE('T', 'Q', '0', '0', '6')
#define ERRCODE_TQ_NO_SUCH_WORKER MAKE_SQLSTATE('T', 'Q', '0', '0', '7')
#define ERRCODE_TQ_QUEUE_FULL MAKE_SQLSTATE('T', 'Q', '0', '0', '8')
#define ERRCODE_TQ_TOO_LARGE MAKE_SQLSTATE('T', 'Q', '0', '0', '9')
#define ERRCODE_TQ_CONFLICT MAKE_SQLSTATE('T', 'Q', '0', '1', '0')
#define ERRCODE_TQ_INVALID_WORKFLOW MAKE_SQLSTATE('T', 'Q', '0', '1', '1')

extern void tq_error_lease_lost(int64 task_id) pg_attribute_noreturn();
extern void tq_error_no_such_task(int64 task_id) pg_attribute_noreturn();
extern void tq_error_no_such_queue(const char *queue) pg_attribute_noreturn();
extern const char *tq_error_payload_hint(const char *queue);
extern void tq_error_worker_again(const char *worker) pg_attribute_noreturn();
extern void tq_error_no_such_worker(const char *worker, bool dead)
	pg_attribute_noreturn();
extern void tq_error_invalid_option(const char *option, const char *problem,
									const char *hint) pg_attribute_noreturn();
extern void tq_error_invalid_transition(int64 task_id, TqState from,
										const char *wanted)
	pg_attribute_noreturn();
extern void tq_error_needs_force(int64 task_id, const char *wanted)
	pg_attribute_noreturn();
extern void tq_error_queue_exists(const char *queue) pg_attribute_noreturn();
extern void tq_error_reference_exists(const char *reference, int64 task_id,
									  TqState state) pg_attribute_noreturn();
extern void tq_error_queue_full(const char *queue, int64 max_depth,
								int64 retry_after_ms) pg_attribute_noreturn();
extern void tq_error_version(int64 task_id, int64 wanted, int64 found)
	pg_attribute_noreturn();
extern void tq_error_too_large(const char *what, int64 size, int64 limit)
	pg_attribute_noreturn();
extern void tq_error_max_payload(const char *what, int64 size, int64 limit)
	pg_attribute_noreturn();
extern void tq_error_too_many_tags(int64 count, int64 limit)
	pg_attribute_noreturn();
extern void tq_error_too_long(const char *what, int64 size, int64 limit,
							  const char *hint) pg_attribute_noreturn();
extern void tq_error_no_right(const char *queue, TqRight right)
	pg_attribute_noreturn();
extern void tq_error_task_right(int64 task_id, TqRight right)
	pg_attribute_noreturn();
extern void tq_error_not_preloaded(const char *what) pg_attribute_noreturn();
extern void tq_error_invalid(const char *what, const char *problem,
							 const char *hint) pg_attribute_noreturn();
extern void tq_error_required(const char *what) pg_attribute_noreturn();
extern void tq_error_serialization(void) pg_attribute_noreturn();

extern const char *tq_error_right_name(TqRight right);

#endif /* TQ_ERROR_H */
