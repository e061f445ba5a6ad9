/*
 * activation.h
 *		Are duties allowed in this database?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ACTIVATION_H
#define TQ_ACTIVATION_H

extern bool tq_activation_allows_duties(void);

#endif /* TQ_ACTIVATION_H */
