static inline void tq_process_init(void) {}
