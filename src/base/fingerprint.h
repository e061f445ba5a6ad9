/*
 * fingerprint.h
 *		The kind of an error: its text without the values that vary.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FINGERPRINT_H
#define TQ_FINGERPRINT_H

#include "base/compat.h"

#define TQ_FINGERPRINT_LENGTH 16

extern char *tq_fingerprint_normalize(const char *text, int length);
extern void tq_fingerprint_of(const char *text, int length, char *fingerprint);
extern bool tq_fingerprint_is_valid(const char *word);

#endif /* TQ_FINGERPRINT_H */
