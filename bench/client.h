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

/* flow.c */
extern void stage(const char *conninfo, int samples, const char *start);
extern void flow(const char *conninfo, int n, int samples, const char *start);
extern void call(const char *what, const char *conninfo, int samples,
				 const char *text);

#endif /* BENCH_CLIENT_H */
