/*
 * taskq: a durable task queue inside PostgreSQL.
 *
 * Generated from sql/parts; do not edit.
 */
\echo Use "CREATE EXTENSION taskq" to load this file. \quit
