/*
 * taskq: a durable task queue inside PostgreSQL.
 *
 * Generated from sql/parts; do not edit.  Numbers of states and reasons are in
 * src/base/code.h: the parts have the names, between two @, and sql/codes.awk
 * replaces them.
 */
\echo Use "CREATE EXTENSION taskq" to load this file. \quit
