/*
 * values.c
 *		Hostile values, by type: some forty or more for each.
 *
 * L is sent as it stands, as a parameter or a quoted string; E is an
 * expression that the server computes.  Names in expressions are qualified,
 * since the search_path may be hostile.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "hostile.h"

#define L(text) {text, text, true}
#define N(name, text) {name, text, true}
#define E(text) {text, text, false}
#define REPEAT(what, times) "pg_catalog.repeat(" what ", " #times ")"
#define CONCAT " OPERATOR(pg_catalog.||) "
#define SERIES(what, last) \
	"(SELECT pg_catalog.array_agg(" what ") " \
	"FROM pg_catalog.generate_series(1, " #last ") i)"

/*
 * Of a limit in bytes: just that many, one more, a character of two and one
 * of four bytes across the limit, and one that ends at it.
 */
#define AT(limit, less1, less2, more) \
	E(REPEAT("'x'", limit)), E(REPEAT("'x'", more)), \
		E(REPEAT("'x'", less1) CONCAT "pg_catalog.chr(233)"), \
		E(REPEAT("'x'", less1) CONCAT "pg_catalog.chr(128512)"), \
		E(REPEAT("'x'", less2) CONCAT "pg_catalog.chr(233)")

static const Value texts[] = {
	L(""), L(" "), L("  x  "), L("'"), L("''"), L("\""), L("\\"), L("\\'"),
	L("\\\\"), L("\\x00"), L("'; DROP TABLE hostile.canary; --"),
	L("\\'; DROP TABLE hostile.canary; --"),
	L("\"; DROP TABLE hostile.canary; --"),
	L("x'); DELETE FROM taskq.task; SELECT ('"),
	L("$$; DROP TABLE hostile.canary; $$"), L("$1"), L("$2"), L("%s%n%d%x"),
	L("%I%L%%"), L("{}"), L("{a,b}"), L("[]"), L("NULL"), L("null"), L("true"),
	L("0"), L("-1"), L("*"), L("**"), L("."), L("../../etc/passwd"),
	L("taskq.task"), L("pg_catalog"), L("public"), L("postgres"), L("default"),
	L("h plain"), L("H PLAIN"), L("h worker"), N("newline", "a\nb"),
	N("tab", "\t"), N("return", "\r\n"), N("byte 1", "\x01"),
	N("bell", "\x07"), N("escape", "\x1b[31m"), N("delete", "a\x7f"),
	N("C1", "\xc2\x85"), N("no-break space", "\xc2\xa0"), N("e acute", "\xc3\xa9"),
	N("combining", "e\xcc\x81"), N("combining alone", "\xcc\x81"),
	N("four bytes", "\xf0\x9f\x98\x80"), N("joined", "\xe2\x80\x8d"),
	N("right to left", "\xe2\x80\xae"), N("byte order mark", "\xef\xbb\xbf"),
	N("no character", "\xef\xbf\xbf"), N("last character", "\xf4\x8f\xbf\xbf"),
	N("byte ff", "\xff"), N("half a character", "a\xc3"),
	N("overlong", "\xc0\x80"), N("surrogate", "\xed\xa0\x80"),
	N("beyond the last", "\xf5\x80\x80\x80"), N("cut short", "\xe2\x82"),
	N("a backslash as second byte", "\x83\x5c"),
	AT(63, 62, 61, 64), AT(120, 119, 118, 121), AT(200, 199, 198, 201),
	AT(500, 499, 498, 501), AT(8192, 8191, 8190, 8193),
	E(REPEAT("pg_catalog.chr(769)", 5000)), E(REPEAT("'x'", 65536)),
	E(REPEAT("'x'", 1000000)), E(REPEAT("pg_catalog.chr(8364)", 350000)),
	E(REPEAT("''''", 100000)), E(REPEAT("'{'", 100000)),
};

static const Value text_arrays[] = {
	L("{}"), L("{a}"), L("{a,a}"), L("{a,NULL}"), L("{NULL}"), L("{null,null}"),
	L("{\"NULL\"}"), L("{\"\"}"), L("{\" \"}"), L("{{a},{b}}"),
	L("{{a,b}}"), L("{{{{{{a}}}}}}"), L("{{}}"), L("[5:6]={a,b}"),
	L("[0:0]={a}"), L("[-2147483648:-2147483648]={a}"),
	L("[2147483646:2147483646]={a}"), L("[1:2][1:1]={{a},{b}}"), L("{a"),
	L("a}"), L("{a,}"), L("{a}{b}"), L(""), L("{'}"), L("{\"\\\"\"}"),
	L("{\"\\\\\"}"), L("{\"a\nb\"}"), N("bell", "{\"\x07\"}"),
	N("C1", "{\xc2\x85}"), N("byte ff", "{\xff}"), N("e acute", "{\xc3\xa9}"),
	N("four bytes", "{\xf0\x9f\x98\x80}"), L("{*}"), L("{done,*}"),
	L("{done}"), L("{running}"), L("{pending,done,pending}"),
	L("{Done}"), L("{read}"), L("{read,write}"), L("{h plain,h limited}"),
	L("{'; DROP TABLE hostile.canary; --}"), E(SERIES("i::pg_catalog.text", 16)),
	E(SERIES("i::pg_catalog.text", 17)), E(SERIES("'same'::pg_catalog.text", 17)),
	E(SERIES("i::pg_catalog.text", 10001)), E(SERIES("i::pg_catalog.text", 100000)),
	E(SERIES("NULL::pg_catalog.text", 100000)),
	E("ARRAY[" REPEAT("'x'", 63) "]"), E("ARRAY[" REPEAT("'x'", 64) "]"),
	E("ARRAY[" REPEAT("'x'", 62) CONCAT "pg_catalog.chr(233)]"),
	E("ARRAY[" REPEAT("'x'", 200) "]"), E("ARRAY[" REPEAT("'x'", 201) "]"),
	E("ARRAY[" REPEAT("'x'", 1000000) "]"),
};

static const Value bigints[] = {
	L("0"), L("-1"), L("-2"), L("1"), L("2"), L("3"), L("7"), L("10"), L("63"),
	L("64"), L("100"), L("1000"), L("32767"), L("32768"), L("-32768"),
	L("65535"), L("65536"), L("2147483647"), L("2147483648"), L("-2147483648"),
	L("-2147483649"), L("4294967295"), L("4294967296"), L("4294967297"),
	L("8796093022207"), L("8796093022208"), L("9007199254740991"),
	L("9007199254740992"), L("-9007199254740993"), L("4611686018427387904"),
	L("9223372036854775806"), L("9223372036854775807"),
	L("9223372036854775808"), L("-9223372036854775807"),
	L("-9223372036854775808"), L("-9223372036854775809"), L(""), L(" 1 "),
	L("1.5"), L("1e3"), L("0x10"), L("NaN"), L("infinity"), L("abc"), L("+1"),
	L("1; DROP TABLE hostile.canary"),
};

static const Value ints[] = {
	L("0"), L("-1"), L("-2"), L("1"), L("2"), L("3"), L("5"), L("10"), L("16"),
	L("63"), L("64"), L("100"), L("255"), L("256"), L("1000"), L("9999"),
	L("10000"), L("10001"), L("32767"), L("32768"), L("-32768"), L("-32769"),
	L("65535"), L("65536"), L("99999"), L("100000"), L("100001"),
	L("1073741824"), L("2147483646"), L("2147483647"), L("2147483648"),
	L("-2147483647"), L("-2147483648"), L("-2147483649"), L(""), L(" 1 "),
	L("1.5"), L("1e3"), L("0x10"), L("NaN"), L("abc"), L("+1"), L("--1"),
	L("4294967297"),
};

static const Value bigint_arrays[] = {
	L("{}"), L("{0}"), L("{1}"), L("{-1}"), L("{1,1}"), L("{1,2}"), L("{2,1}"),
	L("{1,1,1,1,1,1,1,1,1,1}"), L("{1,NULL}"), L("{NULL}"), L("{NULL,NULL}"),
	L("{{1},{2}}"), L("{{1,2}}"), L("{{{{{{1}}}}}}"), L("[5:6]={1,2}"),
	L("[0:0]={1}"), L("[-5:-5]={1}"), L("[2147483646:2147483646]={1}"),
	L("[1:1][1:1]={{1}}"), L("{9223372036854775807}"),
	L("{-9223372036854775808}"), L("{9223372036854775808}"),
	L("{9007199254740992}"), L("{-1,0,9223372036854775807}"), L("{1"), L("1}"),
	L("{1,}"), L("{a}"), L("{1.5}"), L("{\"1\"}"), L("{\"\"}"), L(""),
	L("{ 1 , 2 }"), L("{1;2}"), L("{'; DROP TABLE hostile.canary; --}"),
	E(SERIES("i::pg_catalog.int8", 2)), E(SERIES("i::pg_catalog.int8", 1000)),
	E(SERIES("i::pg_catalog.int8", 100000)),
	E(SERIES("1::pg_catalog.int8", 100000)),
	E(SERIES("NULL::pg_catalog.int8", 100000)),
	E(SERIES("-i::pg_catalog.int8", 10000)),
};

static const Value reals[] = {
	L("0"), L("-0"), L("1"), L("-1"), L("0.5"), L("0.1"), L("0.25"),
	L("0.999999999999"), L("1.0000001"), L("1.5"), L("2"), L("100"),
	L("-0.0000001"), L("1e-10"), L("1e-37"), L("1e-45"), L("1e-46"),
	L("-1e-45"), L("3.4028235e38"), L("-3.4028235e38"), L("3.5e38"),
	L("1e39"), L("1e400000"), L("-1e400000"), L("1e-400000"), L("NaN"),
	L("nan"), L("-NaN"), L("Infinity"), L("-Infinity"), L("inf"), L("+inf"),
	L("infinity "), L(""), L(" "), L("0x1p-2"), L("1,5"), L("1.5.5"), L("abc"),
	L("1e"), L(".5"), L("5."), L("1_000"), L("1; DROP TABLE hostile.canary"),
};

static const Value booleans[] = {
	L("true"), L("false"), L("t"), L("f"), L("yes"), L("no"), L("y"), L("n"),
	L("on"), L("off"), L("1"), L("0"), L("TRUE"), L("FALSE"), L("True"),
	L(" true "), L("tr"), L("fal"), L("of"), L("o"), L("2"), L("-1"), L("01"),
	L("00"), L(""), L(" "), L("null"), L("NULL"), L("maybe"), L("yess"),
	L("truee"), L("t f"), L("tt"), L("NaN"), L("\\x01"), N("bell", "\x07"),
	N("e acute", "\xc3\xa9"), N("byte ff", "\xff"),
	L("'; DROP TABLE hostile.canary; --"), E(REPEAT("'t'", 100000)),
};

static const Value intervals[] = {
	L("0"), L("-0"), L("1"), L("1 us"), L("-1 us"), L("1 s"), L("-1 s"),
	L("0.0000001 s"), L("1 min"), L("1 day"), L("1 month"), L("1 year"),
	L("10 years"), L("3653 days"), L("3653 days 00:00:00.000001"),
	L("10 years 11 days"), L("100 years"), L("1 month -31 days"),
	L("1 month -30 days"), L("-1 month 31 days"), L("-1 day 48:00:00"),
	L("-1 day +48:00:00"), L("-1 0:00:01"), L("1-2"), L("-1-2"), L("1-2 3 4:5:6"),
	L("P1D"), L("P-1D"), L("PT1S"), L("P1Y2M3DT4H5M6S"), L("1 century"),
	L("1 millennium"), L("178000000 years"), L("-178000000 years"),
	L("178956970 years"), L("178956971 years"), L("2147483647 months"),
	L("-2147483648 months"), L("2147483647 days"), L("2147483648 days"),
	L("2562047788 hours"), L("-2562047788 hours"), L("2562047789 hours"),
	L("178000000 years 2147483647 days 2562047788 hours"),
	L("-178000000 years 2147483647 days 2562047788 hours"), L("infinity"),
	L("-infinity"), L("NaN"), L("1e400000 s"), L("1e-400 s"), L(""), L(" "),
	L("ago"), L("1 day ago"), L("1 ago day"), L("day"), L("1 parsec"),
	L("1 s 1 s"), L("'; DROP TABLE hostile.canary; --"),
	E(REPEAT("'1 s '", 10000)),
};

static const Value times[] = {
	L("infinity"), L("-infinity"), L("now"), L("today"), L("tomorrow"),
	L("yesterday"), L("epoch"), L("allballs"), L("1970-01-01"),
	L("2000-01-01"), L("1999-12-31 23:59:60"), L("2038-01-19 03:14:08+00"),
	L("2999-01-01"), L("9999-12-31"), L("10000-01-01"),
	L("294276-12-31 23:59:59.999999+00"), L("294277-01-01"),
	L("4714-11-24 00:00:00+00 BC"), L("4714-11-23 00:00:00+00 BC"),
	L("0001-01-01"), L("0000-01-01"), L("0001-01-01 BC"), L("2030-02-30"),
	L("2030-13-01"), L("2030-01-01 25:00"), L("2030-01-01 24:00:00"),
	L("2030-01-01 00:00+15:59"), L("2030-01-01 00:00-15:59"),
	L("2030-01-01 00:00+16"), L("2030-01-01 00:00 Nowhere/City"),
	L("2030-01-01 00:00 Europe/Berlin"), L("01/02/2030"), L("13/14/2030"),
	L("2030-01-01T00:00:00Z"), L("20300101T000000"), L("J2462503"), L(""),
	L(" "), L("NaN"), L("never"), L("1e400000"), L("2030"),
	L("'; DROP TABLE hostile.canary; --"),
	E("pg_catalog.now()"),
	E("pg_catalog.now() OPERATOR(pg_catalog.+) '1 us'::pg_catalog.interval"),
	E("pg_catalog.now() OPERATOR(pg_catalog.+) '1 h'::pg_catalog.interval"),
	E("pg_catalog.now() OPERATOR(pg_catalog.-) '1 h'::pg_catalog.interval"),
	E("pg_catalog.now() OPERATOR(pg_catalog.+) '3652 d'::pg_catalog.interval"),
	E("pg_catalog.now() OPERATOR(pg_catalog.+) '3654 d'::pg_catalog.interval"),
	E("pg_catalog.now() OPERATOR(pg_catalog.-) '3654 d'::pg_catalog.interval"),
};

#define NEST(open, inner, close, times) \
	REPEAT(open, times) CONCAT inner CONCAT REPEAT(close, times)

static const Value documents[] = {
	L("null"), L("true"), L("false"), L("0"), L("-0"), L("1"), L("-1"),
	L("1.5"), L("1e400000"), L("-1e400000"), L("1e100000"), L("1e-16000"), L("1e20000"),
	L("9223372036854775808"), L("NaN"), L("Infinity"), L("\"\""), L("\"x\""),
	L("\"1 s\""), L("\"NaN\""), L("[]"), L("[null]"), L("[1, 2]"), L("[[]]"),
	L("[{}]"), L("[[[[[[]]]]]]"), L("{}"), L("{\"\": 1}"), L("{\"a\": null}"),
	L("{\"a\": 1, \"a\": 2}"), L("{\"no such\": 1}"), L("{\"a\": {\"b\": []}}"),
	L("{\"queue\": \"h plain\"}"), L("[{\"queue\": \"h plain\", \"queue\": 1}]"),
	L("{\"priority\": 1}"), L("{\"priority\": 1, \"priority\": \"x\"}"),
	L("{\"lease\": \"1 s\", \"Lease\": \"2 s\"}"), L("{\"lease\": null}"),
	L("{"), L("{]"), L("[1,]"), L("{\"a\"}"), L("{a: 1}"), L("'x'"), L(""),
	L(" "), L("1 2"), L("\"\\u0000\""), L("{\"\\u0000\": 1}"), L("\"\\ud800\""),
	L("\"\\udc00\\ud800\""), L("\"\\ud83d\\ude00\""), L("\"\\u00e9\""),
	L("\"\\x\""), L("\"\\u12\""), N("control", "\"\x01\""),
	N("e acute", "\"\xc3\xa9\""), N("byte ff", "\"\xff\""),
	N("four bytes", "{\"\xf0\x9f\x98\x80\": \"\xf0\x9f\x98\x80\"}"),
	L("\"'; DROP TABLE hostile.canary; --\""),
	L("{\"'; DROP TABLE hostile.canary; --\": 1}"),
	E(NEST("'['", "''", "']'", 1000)), E(NEST("'['", "''", "']'", 10000)),
	E(NEST("'{\"a\":'", "'1'", "'}'", 1000)),
	E(NEST("'{\"a\":'", "'1'", "'}'", 10000)),
	E("pg_catalog.to_jsonb(" REPEAT("'x'", 65500) ")"),
	E("pg_catalog.to_jsonb(" REPEAT("'x'", 65536) ")"),
	E("pg_catalog.to_jsonb(" REPEAT("'x'", 1048500) ")"),
	E("pg_catalog.to_jsonb(" REPEAT("'x'", 1048600) ")"),
	E("pg_catalog.jsonb_build_object('a', " REPEAT("'x'", 65536) ")"),
	E("pg_catalog.jsonb_build_object(" REPEAT("'k'", 70000) ", 1)"),
	E("pg_catalog.jsonb_build_object('n', '1e16000'::pg_catalog.numeric)"),
	E("(SELECT pg_catalog.jsonb_agg(i) FROM "
	  "pg_catalog.generate_series(1, 100000) i)"),
	E("(SELECT pg_catalog.jsonb_object_agg(i, i) FROM "
	  "pg_catalog.generate_series(1, 100000) i)"),
	E("(SELECT pg_catalog.jsonb_agg('{}'::pg_catalog.jsonb) FROM "
	  "pg_catalog.generate_series(1, 1000) i)"),
};

static const Value document_arrays[] = {
	L("{}"), L("{1}"), L("{1,2}"), L("{null}"), L("{NULL}"), L("{1,NULL}"),
	L("{NULL,NULL}"), L("{\"null\"}"), L("{\"{}\"}"), L("{\"[]\"}"),
	L("{\"[null]\"}"), L("{true,false}"), L("{{1},{2}}"), L("{{1,2}}"),
	L("{{{{{{1}}}}}}"), L("[5:6]={1,2}"), L("[0:0]={1}"), L("[-5:-5]={1}"),
	L("[2147483646:2147483646]={1}"), L("{1e400000}"), L("{1e10000}"),
	L("{NaN}"), L("{abc}"), L("{\"\\\"x\\\"\"}"), L("{\"\\\"\\\"\"}"),
	L("{\"{\\\"a\\\": 1}\"}"), L("{\"{\\\"a\\\": 1, \\\"a\\\": 2}\"}"), L("{"),
	L("}"), L(""), L("{1,}"), L("{\"\"}"), L("{\"\\\"\\\\u0000\\\"\"}"),
	N("e acute", "{\"\\\"\xc3\xa9\\\"\"}"), N("byte ff", "{\"\\\"\xff\\\"\"}"),
	E(SERIES("'1'::pg_catalog.jsonb", 2)),
	E(SERIES("'1'::pg_catalog.jsonb", 1000)),
	E(SERIES("NULL::pg_catalog.jsonb", 100000)),
	E("ARRAY[pg_catalog.to_jsonb(" REPEAT("'x'", 1048600) ")]"),
	E("ARRAY[(" NEST("'['", "''", "']'", 1000) ")::pg_catalog.jsonb]"),
	E("ARRAY['1'::pg_catalog.jsonb, pg_catalog.to_jsonb("
	  REPEAT("'x'", 1048600) ")]"),
};

static const Value bytes[] = {
	L(""), L("\\x"), L("\\x00"), L("\\xff"), L("\\x0"), L("\\xzz"), L("\\x 00"),
	L("\\x0 0"), L("\\X00"), L("x00"), L("\\000"), L("\\377"), L("\\400"),
	L("\\0"), L("\\\\"), L("\\"), L("abc"), L("\\x0a0d"), L("\\x27"),
	L("\\x5c"), L("\\x27203b2044524f50"), L("'; DROP TABLE hostile.canary; --"),
	L("a\nb"), N("byte 1", "\x01"), N("e acute", "\xc3\xa9"),
	N("byte ff", "\xff"), N("cut short", "\xe2\x82"), L("\\xdeadbeef"),
	L("\\xDEADBEEF"), L("\\xDeAdBeEf "), L("0x00"), L("{}"), L("NULL"),
	L("\\x00000000000000000000000000000000"), L("%s%n"), L(" "),
	E("pg_catalog.convert_to(" REPEAT("'x'", 1900) ", 'UTF8')"),
	E("pg_catalog.convert_to(" REPEAT("'x'", 1048576) ", 'UTF8')"),
	E("pg_catalog.convert_to(" REPEAT("'x'", 1048577) ", 'UTF8')"),
	E("pg_catalog.decode(" REPEAT("'00'", 1000000) ", 'hex')"),
	E("pg_catalog.decode(" REPEAT("'ff'", 1048572) ", 'hex')"),
};

#define TYPE(name, sql, good, values) \
	{name, "pg_catalog." sql, good, values, sizeof(values) / sizeof(Value)}

const Type types[] = {
	TYPE("text", "text", "'word'", texts),
	TYPE("text[]", "text[]", "'{a}'", text_arrays),
	TYPE("bigint", "int8", "1", bigints),
	TYPE("bigint[]", "int8[]", "'{}'", bigint_arrays),
	TYPE("integer", "int4", "1", ints),
	TYPE("smallint", "int2", "1", ints),
	TYPE("real", "float4", "0.5", reals),
	TYPE("double precision", "float8", "0.5", reals),
	TYPE("boolean", "bool", "false", booleans),
	TYPE("interval", "interval", "'1 s'", intervals),
	TYPE("timestamp with time zone", "timestamptz",
		 "pg_catalog.now() OPERATOR(pg_catalog.+) "
		 "'1 h'::pg_catalog.interval", times),
	TYPE("jsonb", "jsonb", "'{}'", documents),
	TYPE("jsonb[]", "jsonb[]", "'{1}'", document_arrays),
	TYPE("bytea", "bytea", "pg_catalog.decode('00', 'hex')", bytes),
};
const int type_count = sizeof(types) / sizeof(Type);

/* Values of a member of a document. */
const Value member_values[] = {
	L("null"), L("true"), L("false"), L("0"), L("-1"), L("1"), L("1.5"),
	L("1e-400"), L("1e300"), L("1e1000"), L("-1e1000"), L("2147483648"),
	L("9223372036854775807"), L("9223372036854775808"), L("\"\""), L("\"x\""),
	L("\"1 s\""), L("\"-1 s\""), L("\"10\""), L("\"NaN\""), L("\"infinity\""),
	L("\"178000000 years\""), L("\"2562047789 hours\""), L("\"2999-01-01\""),
	L("\"2030-02-30\""), L("\"\\\\x00\""), L("\"\\\\xzz\""),
	L("\"\\u0001\""), L("\"*\""), L("\"'; DROP TABLE hostile.canary; --\""),
	L("[]"), L("[null]"), L("[1]"), L("[\"a\", \"a\"]"), L("[\"1 s\", null]"),
	L("[[\"a\"]]"), L("{}"), L("{\"a\": {}}"),
	L("{\"count\": 1e300, \"per\": \"1 s\"}"),
	L("{\"count\": 1, \"per\": \"-1 s\"}"), L("{\"count\": 5, \"per\": 7}"),
};
const int member_value_count = sizeof(member_values) / sizeof(Value);

static const char *const submit_members[] = {
	"queue", "payload", "priority", "run_at", "delay", "deadline",
	"max_attempts", "tags", "key", "reference", "on_conflict", "headers",
	"correlation_id", "data", "insertion", "suspended", "options", "nothing",
	NULL};
static const char *const decision_members[] = {
	"task_id", "token", "outcome", "result", "keep", "error", "detail",
	"retryable", "retry_in", "delay", "reason", "nothing", NULL};
static const char *const option_members[] = {
	"priority", "max_attempts", "retry", "retry_base", "retry_cap",
	"retry_list", "retry_jitter", "lease", "time_limit", "order", "key_policy",
	"max_running", "max_running_per_key", "rate_limit", "max_depth",
	"max_payload", "retention", "retention_dead", "reference_window",
	"on_worker_death", "dead_letter_queue", "notify", "history", "executor",
	"deadline_in", NULL};

const Members members[] = {
	{"taskq_submit_tasks", "tasks", "[{\"queue\": \"h plain\", \"%s\": %s}]",
	 submit_members},
	{"taskq_decide_many", "decisions",
	 "[{\"task_id\": 1, \"token\": 1, \"outcome\": \"fail\", \"error\": \"e\","
	 " \"%s\": %s}]", decision_members},
	{"taskq_decide_many", "decisions",
	 "[{\"task_id\": 1, \"token\": 1, \"outcome\": \"release\", \"%s\": %s}]",
	 decision_members},
	{"taskq_create_queue", "options", "{\"%s\": %s}", option_members},
	{"taskq_submit", "options", "{\"%s\": %s}", option_members},
	{"taskq_update_task", "changes", "{\"%s\": %s}", submit_members},
};
const int members_count = sizeof(members) / sizeof(Members);
