/*
 * explain.h
 *		Why a task does not run, why a claim gets nothing: in words.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPLAIN_H
#define TQ_EXPLAIN_H

#include "lib/stringinfo.h"

#endif /* TQ_EXPLAIN_H */
