/*
 * fingerprint.c
 *		The kind of an error: its text without the values that vary.
 *
 * Numbers, identifiers and quoted values are replaced by a question mark, so
 * that errors of one kind have one text.  The fingerprint is a hash of that
 * text.  It must never change: consoles keep it, and filters contain it.
 *
 * The text is read byte by byte.  No server encoding has an ASCII byte within
 * a character, so bytes of other characters are copied as they are, and count
 * as letters.  Each byte is read a bounded number of times: a search for a
 * closing quote that fails is not repeated.  The result is never longer than
 * the text.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "lib/stringinfo.h"

#include "base/fingerprint.h"

#define MARK '?'
#define SHORT_HEX 8  /* digits of the shortest hexadecimal id */
#define SHORT_ID 16  /* characters of the shortest random id */
#define RUNS_OF_ID 3 /* runs of digits that it has at least */
#define UUID_LENGTH 36
#define QUOTES "'\"`"

typedef struct Reader
{
	const char    *at;
	const char    *begin;
	const char    *end;
	StringInfoData out;
	int            mark; /* where out ends after a mark, or -1 */
	bool           open[sizeof(QUOTES)]; /* a kind of quote has no end */
} Reader;

static bool        is_digit(unsigned char c);
static bool        is_hex(unsigned char c);
static bool        is_word(unsigned char c);
static bool        is_space(unsigned char c);
static bool        after_word(const Reader *reader);
static const char *end_of_quote(Reader *reader);
static const char *end_of_uuid(const Reader *reader);
static const char *end_of_word(const Reader *reader);
static bool        is_id(const char *word, const char *end);
static void        put_mark(Reader *reader);
static void        put_word(Reader *reader, const char *end);
static const char *end_of_number(const Reader *reader);
static void        put_space(Reader *reader);

/* The text without the values that vary, in the current memory context. */
char *
tq_fingerprint_normalize(const char *text, int length)
{
	Reader reader = {0};

	reader.at = reader.begin = text;
	reader.end = text + length;
	reader.mark = -1;
	initStringInfo(&reader.out);
	while (reader.at < reader.end)
	{
		unsigned char c = *reader.at;
		const char   *end;

		if ((end = end_of_quote(&reader)) != NULL ||
			(end = end_of_uuid(&reader)) != NULL)
		{
			put_mark(&reader);
			reader.at = end;
		}
		else if (is_word(c))
			put_word(&reader, end_of_word(&reader));
		else if (is_space(c))
			put_space(&reader);
		else
		{
			bool sign = (c == '-' || c == '+') && !after_word(&reader) &&
						reader.at + 1 < reader.end && is_digit(reader.at[1]) &&
						reader.mark != reader.out.len;

			if (!sign)
				appendStringInfoChar(&reader.out, c);
			reader.at++;
		}
	}
	while (reader.out.len > 0 && reader.out.data[reader.out.len - 1] == ' ')
		reader.out.data[--reader.out.len] = '\0';
	return reader.out.data;
}

/* The fingerprint of an error text: 16 hexadecimal digits. */
void
tq_fingerprint_of(const char *text, int length, char *fingerprint)
{
	char  *normal = tq_fingerprint_normalize(text, length);
	uint64 hash = UINT64CONST(0xcbf29ce484222325); /* FNV-1a */

	for (const char *c = normal; *c != '\0'; c++)
		hash = (hash ^ (unsigned char) *c) * UINT64CONST(0x100000001b3);
	snprintf(fingerprint, TQ_FINGERPRINT_LENGTH + 1, "%016" INT64_MODIFIER "x",
			 hash);
	pfree(normal);
}

/* Can this be a fingerprint? */
bool
tq_fingerprint_is_valid(const char *word)
{
	return strlen(word) == TQ_FINGERPRINT_LENGTH &&
		   strspn(word, "0123456789abcdef") == TQ_FINGERPRINT_LENGTH;
}

static bool
is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_hex(unsigned char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* A letter, digit or underscore; letters that are not ASCII included. */
static bool
is_word(unsigned char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		   c == '_' || IS_HIGHBIT_SET(c);
}

static bool
is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool
after_word(const Reader *reader)
{
	return reader->at > reader->begin && is_word(reader->at[-1]);
}

/*
 * Return the end of a quoted value that begins here, or NULL.  A quote after a
 * letter is an apostrophe, and so is a single quote before one.
 */
static const char *
end_of_quote(Reader *reader)
{
	char        quote = *reader->at;
	const char *kind = strchr(QUOTES, quote);

	if (kind == NULL || quote == '\0' || reader->open[kind - QUOTES] ||
		after_word(reader))
		return NULL;
	for (const char *c = reader->at + 1; c < reader->end; c++)
	{
		if (*c == '\\' && c + 1 < reader->end)
			c++;
		else if (*c == quote && (c + 1 == reader->end || !is_word(c[1])))
			return c + 1;
	}
	reader->open[kind - QUOTES] = true;
	return NULL;
}

/* Return the end of a UUID that begins here, or NULL. */
static const char *
end_of_uuid(const Reader *reader)
{
	const char *c = reader->at;

	if (reader->end - c < UUID_LENGTH || !is_hex(*c) || after_word(reader))
		return NULL;
	for (int i = 0; i < UUID_LENGTH; i++)
	{
		if (i == 8 || i == 13 || i == 18 || i == 23 ? c[i] != '-'
													: !is_hex(c[i]))
			return NULL;
	}
	c += UUID_LENGTH;
	return c < reader->end && is_word(*c) ? NULL : c;
}

static const char *
end_of_word(const Reader *reader)
{
	const char *c = reader->at;

	while (c < reader->end && is_word(*c))
		c++;
	return c;
}

/* Is the whole word an id: hexadecimal digits, or letters and digits mixed? */
static bool
is_id(const char *word, const char *end)
{
	bool hex = true;
	bool ascii = true;
	int  runs = 0;

	if (end - word > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X'))
		return true;
	for (const char *c = word; c < end; c++)
	{
		hex = hex && is_hex(*c);
		ascii = ascii && *c != '_' && !IS_HIGHBIT_SET(*c);
		if (is_digit(*c) && (c == word || !is_digit(c[-1])))
			runs++;
	}
	return (hex && runs > 0 && end - word >= SHORT_HEX) ||
		   (ascii && runs >= RUNS_OF_ID && end - word >= SHORT_ID);
}

/*
 * Write a mark.  Marks that only a separator divides are one: a date, an
 * address, a list of values.
 */
static void
put_mark(Reader *reader)
{
	StringInfo out = &reader->out;

	if (reader->mark >= 0)
	{
		const char *between = out->data + reader->mark;
		int         length = out->len - reader->mark;

		if (length == 0 ||
			(length == 1 && strchr(".,:-/", between[0]) != NULL) ||
			(length == 2 && between[0] == ',' && between[1] == ' '))
		{
			out->len = reader->mark;
			out->data[out->len] = '\0';
			return;
		}
	}
	appendStringInfoChar(out, MARK);
	reader->mark = out->len;
}

/* Write a word, with a mark in place of each number. */
static void
put_word(Reader *reader, const char *end)
{
	if (is_id(reader->at, end))
	{
		put_mark(reader);
		reader->at = end;
		return;
	}
	while (reader->at < end)
	{
		if (!is_digit(*reader->at))
		{
			appendStringInfoChar(&reader->out, *reader->at++);
			continue;
		}
		put_mark(reader);
		reader->at = end_of_number(reader);
	}
}

/* Return the end of the number that begins here, with its exponent. */
static const char *
end_of_number(const Reader *reader)
{
	const char *end = reader->at;
	const char *exponent;

	while (end < reader->end && is_digit(*end))
		end++;
	if (end == reader->end || (*end != 'e' && *end != 'E'))
		return end;
	exponent = end + 1;
	if (exponent < reader->end && (*exponent == '-' || *exponent == '+'))
		exponent++;
	if (exponent == reader->end || !is_digit(*exponent))
		return end;
	while (exponent < reader->end && is_digit(*exponent))
		exponent++;
	return exponent < reader->end && is_word(*exponent) ? end : exponent;
}

/* White space is one space between two words. */
static void
put_space(Reader *reader)
{
	while (reader->at < reader->end && is_space(*reader->at))
		reader->at++;
	if (reader->out.len > 0)
		appendStringInfoChar(&reader->out, ' ');
}
