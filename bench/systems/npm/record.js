// record.js: the statements of a queue for Node, as scripts for pgbench.
//
//   node record.js install SYSTEM DATABASE
//   node record.js record SYSTEM DATABASE DIRECTORY PAYLOAD
//
// "install" lets the library make what it needs in an empty database.  "record"
// lets it submit, take and complete tasks, and writes exactly the statements that
// it sends to DIRECTORY/SYSTEM.WHAT.recorded, and the values that it binds to
// DIRECTORY/SYSTEM.defs.  So the speed of Node is not measured, and only
// statements that the library sends are.
'use strict';
const fs = require('fs');
const path = require('path');
const pg = require('pg');

const [command, system, database, directory, payloadText] = process.argv.slice(2);
const pool = new pg.Pool({ database, user: 'bench', max: 4 });
let log = [];

const query = pg.Client.prototype.query;
pg.Client.prototype.query = function (config, values, ...rest) {
  const text = typeof config === 'string' ? config : config.text;
  const bound = Array.isArray(values) ? values : config.values;
  if (text) log.push({ text, values: bound || [] });
  return query.call(this, config, values, ...rest);
};

// recorded(PATTERN, CODE): the one statement like that which the code sends,
// and what the code returns
async function recorded(pattern, code) {
  log = [];
  const result = await code();
  const found = log.filter(({ text }) => pattern.test(text));
  if (found.length !== 1) {
    throw new Error(`${found.length} statements of ${system} are like ${pattern}:\n` +
      log.map(({ text }) => text).join('\n'));
  }
  return { ...found[0], result };
}

// as the driver would send it
function bound(value) {
  if (Array.isArray(value)) {
    return `{${value.map((v) => (v === null ? 'NULL' : `"${bound(v).replace(/(["\\])/g, '\\$1')}"`)).join(',')}}`;
  }
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const definitions = [];

// script(NAME, STATEMENT, IDS): pgbench's form; values that are IDS (a task's
// or a list of them) become the variable that an earlier statement sets
function script(name, { text, values }, ids, variable) {
  return text.replace(/--.*$/gm, ' ').replace(/\s+/g, ' ').replace(/;\s*$/, '').trim()
    .replace(/\$(\d+)/g, (_, number) => {
      const value = values[number - 1];
      if (value === null || value === undefined) return 'NULL';
      if (ids && bound(value) === bound(ids)) return variable;
      if (ids && ids.length === 1 && bound(value) === bound(ids[0])) return ':id';
      const defined = `${name}_${number}`;
      if (!definitions.some((line) => line.startsWith(`${defined}\t`))) {
        definitions.push(`${defined}\t${bound(value)}`);
      }
      return `:${defined}`;
    });
}

function write(what, ...lines) {
  fs.writeFileSync(path.join(directory, `${system}.${what}.recorded`), `${lines.join('\n')}\n`);
}

const payload = () => JSON.parse(payloadText);
const payloads = () => Array.from({ length: 100 }, payload);

const systems = {
  graphile: {
    async install() {
      const { runMigrations } = require('graphile-worker');
      await runMigrations({ pgPool: pool });
    },

    async record() {
      const { makeWorkerUtils, runOnce } = require('graphile-worker');
      const utils = await makeWorkerUtils({ pgPool: pool });
      const submit = await recorded(/add_job/, () => utils.addJob('bench', payload()));
      write('submit', `${script('submit', submit)};`);
      let id;
      const took = { pgPool: pool, taskList: { bench: async (_, { job }) => { id = job.id; } } };
      log = [];
      await runOnce(took);
      const claim = log.find(({ text, values }) => /skip locked/i.test(text) && values.length > 0);
      const complete = log.find(({ text }) => /delete from/i.test(text) && /jobs/.test(text));
      write('work', `${script('claim', claim)} \\gset`,
        `${script('complete', complete, [id], 'ARRAY[:id]')};`);
      if (utils.addJobs) {
        const many = await recorded(/add_jobs/, () => utils.addJobs(
          payloads().map((p) => ({ identifier: 'bench', payload: p }))));
        write('submit100', `${script('submit100', many)};`);
      }
      await utils.release();
    },
  },

  pgboss: {
    async boss() {
      const module = require('pg-boss');
      const boss = new (module.PgBoss || module)({
        db: { executeSql: (text, values) => pool.query(text, values) },
        supervise: false,
        schedule: false,
      });
      boss.on('error', (error) => { throw error; });
      await boss.start();
      return boss;
    },

    async install() {
      const boss = await this.boss();
      await boss.createQueue('bench');
      await boss.stop({ graceful: false });
    },

    async record() {
      const boss = await this.boss();
      const submit = await recorded(/INSERT INTO/i, () => boss.send('bench', payload()));
      write('submit', `${script('submit', submit)};`);
      const many = await recorded(/INSERT INTO/i, () => boss.insert(
        payloads().map((data) => ({ name: 'bench', data }))));
      write('submit100', `${script('submit100', many)};`);
      const claim = await recorded(/SKIP LOCKED/i, () => boss.fetch('bench'));
      const ids = claim.result.map((job) => job.id);
      const complete = await recorded(/UPDATE/i, () => boss.complete('bench', ids[0]));
      write('work', `${script('claim', claim)} \\gset`,
        `${script('complete', complete, ids, 'ARRAY[:id]::uuid[]')};`);
      const claims = await recorded(/SKIP LOCKED/i, () => boss.fetch('bench', { batchSize: 50 }));
      const all = claims.result.map((job) => job.id);
      const completes = await recorded(/UPDATE/i, () => boss.complete('bench', all));
      write('work50',
        `WITH taken AS (${script('claims', claims)}) SELECT array_agg(id) AS ids, 1 / (count(*) = 50)::int AS good FROM taken \\gset`,
        `${script('completes', completes, all, ':ids')};`);
      await boss.stop({ graceful: false });
    },
  },
};

async function main() {
  await systems[system][command]();
  if (command === 'record') {
    fs.writeFileSync(path.join(directory, `${system}.defs`), definitions.map((line) => `${line}\n`).join(''));
  }
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
