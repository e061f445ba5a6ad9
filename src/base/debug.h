#ifndef TQ_DEBUG_H
#define TQ_DEBUG_H
#define TQ_DEBUG_POINT(name) ((void) 0)
#define TQ_FAULT_POINT(name) ((void) 0)
static inline void tq_debug_init(void) {}
#endif
