/*
 * client.h
 *		What the parts of the benchmark's client share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <libpq-fe.h>

/* client.c */
extern void die(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));
extern double  now(void);
extern PGconn *connect_to(const char *conninfo);

/* copy.c */
extern void copy(const char *conninfo, int clients, double seconds,
				 const char *file);

#endif /* BENCH_CLIENT_H */
