/*
 * duty.h
 *		Background duties: dead workers, expired leases, deadlines, retention.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DUTY_H
#define TQ_DUTY_H

/* for the background worker, outside a transaction */
extern void        tq_duty_start(void);
extern TimestampTz tq_duty_turn(TimestampTz told);

/* inside a transaction */

#endif /* TQ_DUTY_H */
