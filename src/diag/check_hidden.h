/*
 * check_hidden.h
 *		taskq_check(): do claims skip a task that they could take?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECK_HIDDEN_H
#define TQ_CHECK_HIDDEN_H

extern void tq_check_hidden(ReturnSetInfo *result);

#endif /* TQ_CHECK_HIDDEN_H */
