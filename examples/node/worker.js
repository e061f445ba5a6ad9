#!/usr/bin/env node
/* A complete taskq worker for Node, with pg.
 *     npm ci && node worker.js QUEUE WORKER     the server: PGHOST, PGPORT, ...
 * A task's payload is {"n": 17}; its square is written into done_work.  "ms" makes it
 * take that long, "fail" makes it fail.  pg gives bigint as text: leave it so. */
'use strict';
const { Client, DatabaseError } = require('pg');
const { setTimeout: sleep } = require('timers/promises');

const [queue, name] = process.argv.slice(2);
const leaving = new AbortController(); // take no more tasks
const finished = new AbortController(); // no more heartbeats either
let task; // in hand: { id, token, payload, dropped }
let main; // the connection for everything but heartbeats
const us = [name, require('crypto').randomInt(2 ** 47)]; // no other process has both

// The connection was lost: the error is not the server's, or ends the session (57P01).
const lost = (e) => !(e instanceof DatabaseError) || /^(08|57P)/.test(e.code);
const nap = (ms, until) => sleep(ms, null, { signal: until.signal }).catch(() => {});

// keep: we keep our tasks
async function connect(keep) {
  const c = new Client({ application_name: name });
  c.on('error', () => {}); // the next query says it, too
  await c.connect();
  await c.query('SELECT taskq_register($1, ARRAY[$2], keep => $3, incarnation => $4)',
    [name, queue, keep, us[1]]);
  return c;
}

// On its own connection.  Work without an await belongs into a worker thread.
async function heartbeats() {
  for (let c, pause; !finished.signal.aborted; await nap(pause, finished)) {
    try {
      c ??= await connect(true);
      const { rows: [beat] } = await c.query('SELECT cancel, drain, 1000 * extract(epoch'
        + ' FROM next_in)::float8 AS pause FROM taskq_heartbeat($1, $2)', us);
      pause = beat.pause;
      if (task && beat.cancel.includes(task.id)) task.dropped.abort();
      if (beat.drain) leaving.abort(); // an operator drains us
    } catch (e) {
      // our task was requeued: no heartbeat in time, or another process has our name
      if (e.code === 'TQ007') (c ? task?.dropped : leaving)?.abort();
      c?.end().catch(() => {}); // connect and register again
      [c, pause] = [null, 200];
    }
  }
}

// Call work(connection) in a transaction, again until the answer is known.
async function transaction(work) {
  for (let last = leaving.signal.aborted; ; last = leaving.signal.aborted) {
    try {
      main ??= await connect(Boolean(task));
      await main.query('BEGIN');
      const result = await work(main);
      await main.query('COMMIT');
      return result;
    } catch (e) {
      if (!lost(e)) {
        await main?.query('ROLLBACK').catch(() => {});
        if (e.code === '40001' || e.code === '40P01') continue; // repeat it
        throw e;
      }
      // Repeat it.  If a claim's answer was lost, registering again requeues its task
      console.error(`${name}: connection lost: ${e.message}`);
      if (!main && last && !task) process.exit(1);
      main?.end().catch(() => {});
      main = null;
      await sleep(200);
    }
  }
}

// The work itself, here mostly waiting.  Yours passes the signal on, or checks it.
async function compute(payload, signal) {
  if (payload.fail) throw new Error('told to fail');
  await sleep(payload.ms ?? 0, null, { signal });
  return (BigInt(payload.n) ** 2n).toString();
}

async function doTask({ id, token, payload, dropped }) {
  try {
    const square = await compute(payload, dropped.signal);
    await transaction(async (c) => { // first: if the task is lost, write nothing
      await c.query('SELECT taskq_complete($1, $2, $3)', [id, token, { square }]);
      await c.query('INSERT INTO done_work VALUES ($1, $2, $3, $4)',
        [id, payload.n, square, name]);
    });
  } catch (e) {
    const retryable = !(e instanceof TypeError); // a payload without "n" stays so
    await transaction((c) => c.query('SELECT taskq_fail($1, $2, $3, retryable => $4)',
      [id, token, e.message, retryable]));
  }
}

async function run() {
  process.on('SIGTERM', () => leaving.abort());
  await transaction(() => {}); // connect and register
  const beating = heartbeats();
  for (let idle = 50; !leaving.signal.aborted; task = null) {
    try {
      const { rows: [row] } = await transaction((c) => c.query('SELECT task_id AS id,'
        + ' token, payload FROM taskq_claim($3, $1, incarnation => $2)', [...us, queue]));
      idle = row ? 50 : Math.min(2 * idle, 1000); // it polls at increasing intervals
      task = row && { ...row, dropped: new AbortController() };
      if (row) await doTask(task);
      else await nap(idle, leaving);
    } catch (e) { // TQ001: no longer ours; TQ007: the heartbeats register again
      if (e.code !== 'TQ001' && e.code !== 'TQ007') throw e;
    }
  }
  finished.abort();
  await beating;
  await transaction((c) => c.query('SELECT taskq_deregister($1, $2)', us));
  process.exit(0); // this closes both connections
}

run().catch((e) => { console.error(e); process.exit(1); });
