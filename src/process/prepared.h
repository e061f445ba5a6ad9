/*
 * prepared.h
 *		COMMIT PREPARED and ROLLBACK PREPARED.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PREPARED_H
#define TQ_PREPARED_H

#include "base/compat.h"

extern void tq_prepared_init(void);
extern void tq_prepared_begin(bool commits);
extern void tq_prepared_end(void);
extern void tq_prepared_error(int sqlerrcode);

#endif /* TQ_PREPARED_H */
