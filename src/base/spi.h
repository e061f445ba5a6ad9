/*
 * spi.h
 *		SQL of the extension itself, run as its owner.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SPI_H
#define TQ_SPI_H

#include "base/compat.h"

#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "executor/spi.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"

#define TQ_STMT_ARGS 16

/* A statement: whole, qualified, prepared at its first use and kept. */
typedef struct TqStmt
{
	const char *text;
	Oid         types[TQ_STMT_ARGS + 1]; /* of its arguments; the last is 0 */
	SPIPlanPtr  plan;
	bool        generic; /* use one generic plan */
} TqStmt;

/* State that tq_spi_enter saves for tq_spi_leave. */
typedef struct TqSpi
{
	Oid           userid;
	int           seccontext;
	int           path;
	MemoryContext caller; /* for results that outlive the call */
} TqSpi;

extern void   tq_spi_enter(TqSpi *spi);
extern void   tq_spi_leave(TqSpi *spi);
extern uint64 tq_spi_run(TqStmt *stmt, const Datum *args, const bool *nulls,
						 int expected, long limit);
extern uint64 tq_spi_look(TqStmt *stmt, const Datum *args, const bool *nulls,
						  long limit);
extern uint64 tq_spi_read(TqStmt *stmt, const Datum *args, const bool *nulls,
						  long limit);
extern Datum  tq_spi_int8_array(const int64 *values, int count);
extern Datum  tq_spi_int4_array(const int32 *values, int count);
extern uint64 tq_spi_execute(TqStmt *stmt, const Datum *args,
							 const bool *nulls, int expected);
extern bool   tq_spi_exists(TqStmt *stmt, const Datum *args);
extern int64  tq_spi_find_id(TqStmt *stmt, const Datum *args);
extern TimestampTz tq_spi_find_time(TqStmt *stmt, const Datum *args,
									TimestampTz if_none);
extern char       *tq_spi_read_text(TqStmt *stmt, const Datum *args);
extern uint64      tq_spi_list(TqStmt *stmt, const Datum *args, int64 **ids);
extern uint64 tq_spi_list_int4(TqStmt *stmt, const Datum *args, int32 **ids);
extern int    tq_spi_arg_count(const TqStmt *stmt);
extern uint64 tq_spi_once(TqStmt *stmt, const Datum *args, const bool *nulls,
						  bool read_only);
extern Datum  tq_spi_get(uint64 row, int column, bool *isnull);
extern int64  tq_spi_int8(uint64 row, int column, int64 if_null);
extern int64 *tq_spi_ids(TqSpi *spi, uint64 rows, int column);
extern int32  tq_spi_int4(uint64 row, int column, int32 if_null);
extern bool   tq_spi_bool(uint64 row, int column);
extern TimestampTz tq_spi_time(uint64 row, int column, TimestampTz if_null);
extern char       *tq_spi_text(TqSpi *spi, uint64 row, int column);
extern Jsonb      *tq_spi_jsonb(TqSpi *spi, uint64 row, int column);
extern Datum       tq_spi_array(TqSpi *spi, uint64 row, int column);

#endif /* TQ_SPI_H */
