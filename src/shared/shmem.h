/*
 * shmem.h
 *		Shared memory of the extension.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SHMEM_H
#define TQ_SHMEM_H

#include "base/compat.h"

extern bool tq_shmem_ready(void);
extern void tq_shmem_require(const char *what);
extern void tq_shmem_wipe(void);
extern void tq_shmem_forget_database(Oid database);
extern void tq_shmem_init(void);

#endif /* TQ_SHMEM_H */
