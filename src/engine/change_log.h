/*
 * change_log.h
 *		The log of changes to queues, rights, workers, schedules and templates.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_LOG_H
#define TQ_CHANGE_LOG_H

#include "base/compat.h"

extern void  tq_change_log_add(const char *what, const char *queue,
							   const char *object, const char *detail,
							   const char *reason);
extern char *tq_change_log_word(const char *text);

#endif /* TQ_CHANGE_LOG_H */
