// A program with Baton in its own process that takes jobs of every kind. It logs for the suite the lines that a worker
// of the service logs.
import { pino } from 'pino';
import { ENGINE_VERSION } from '../../src/domain/tunables.ts';
import { createBaton } from '../../src/library/baton.ts';
import { loadConfig } from '../../src/platform/config.ts';

const log = pino({ level: 'debug', base: null, timestamp: pino.stdTimeFunctions.isoTime });
const stopped = new Promise<string>((resolve) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, resolve);
});
const { configFile: _file, logLevel: _level, processes: _count, ...settings } = loadConfig(process.env);
await using baton = await createBaton({ ...settings, log, environment: process.env, migrate: false });
await baton.startWorker();
const { workers } = await baton.client.workers();
const workerId = workers.find(({ id }) => id.includes(`-${process.pid}-`))?.id;
log.info({ event: 'process_started', role: 'worker', workerId, engine: ENGINE_VERSION });
const end = await Promise.race([stopped, baton.lost]);
log.info({ event: 'process_stopping', signal: String(end) });
