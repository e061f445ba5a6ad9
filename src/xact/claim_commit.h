/*
 * claim_commit.h
 *		Whether a commit of claims waits for the disk.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_COMMIT_H
#define TQ_CLAIM_COMMIT_H

#include "base/compat.h"

extern void tq_claim_commit_claim_begin(void);
extern void tq_claim_commit_claim_end(bool deferrable);
extern void tq_claim_commit_before(void);
extern void tq_claim_commit_after(void);

#endif /* TQ_CLAIM_COMMIT_H */
