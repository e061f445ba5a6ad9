#ifndef TQ_STATION_H
#define TQ_STATION_H
#include "base/compat.h"
#include "datatype/timestamp.h"
extern Size tq_station_size(void);
extern void tq_station_init(void);
extern void tq_station_wake(void);
extern void tq_station_due(TimestampTz at);
extern void tq_station_visit(Oid database);
#endif
