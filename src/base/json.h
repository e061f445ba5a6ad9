/*
 * json.h
 *		Members of JSON documents given by callers, as C values.
 *
 * A member of another type raises 22023 with its name.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_JSON_H
#define TQ_JSON_H

#include "base/compat.h"

#include "utils/jsonb.h"

extern bool        tq_json_is_object(const JsonbValue *value);
extern bool        tq_json_is_list(const JsonbValue *value);
extern JsonbValue *tq_json_member(const JsonbValue *value, const char *name);
extern int32       tq_json_int4(const char *name, JsonbValue *value);
extern int64       tq_json_int8(const char *name, JsonbValue *value);
extern int64       tq_json_span(const char *name, JsonbValue *value);
extern bool        tq_json_bool(const char *name, JsonbValue *value);
extern char       *tq_json_string(const char *name, JsonbValue *value);

#endif /* TQ_JSON_H */
