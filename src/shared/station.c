#include "base/compat.h"
#include "shared/station.h"
Size tq_station_size(void) { return 0; }
void tq_station_init(void) {}
void tq_station_wake(void) {}
void tq_station_due(TimestampTz at) {}
void tq_station_visit(Oid database) {}
