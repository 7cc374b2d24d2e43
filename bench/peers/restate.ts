// Restate: a session is a virtual object, a step is a `ctx.run`. Its server keeps the journal; it is started here with
// the configuration that it comes with, and its data on the disk of the temporary folder.
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';
import type { ModelMessage } from 'ai';
import type { Pool } from 'pg';
import { callTools, firstMessage, hasCalls, runModelStep } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { askModelDurably, countTexts, TEXT_TABLE, writeText } from './durable-text.ts';
import { startRestateServer } from './restate-server.ts';

const session = restate.object({
  name: 'session',
  handlers: {
    run: async (ctx: restate.ObjectContext, steps: number): Promise<number> => {
      const history = (await ctx.get<ModelMessage[]>('messages')) ?? [firstMessage(steps)];
      for (let no = 1; no <= steps; no++) {
        history.push(...(await ctx.run('step', () => runModelStep(history))));
      }
      ctx.set('messages', history);
      return history.length;
    },
  },
});

/**
 * A `ctx.run` for each model call and one for its tool calls. Text cannot leave a `ctx.run` through the journal before
 * its end, so it goes into a table.
 */
const sessionInParts = (pool: Pool) =>
  restate.object({
    name: 'session',
    handlers: {
      run: async (ctx: restate.ObjectContext, steps: number): Promise<number> => {
        const history = (await ctx.get<ModelMessage[]>('messages')) ?? [firstMessage(steps)];
        for (let no = 1; no <= steps; no++) {
          const response = await ctx.run('model', () =>
            askModelDurably(history, (text) => writeText(pool, ctx.key, text)),
          );
          history.push(...response);
          if (hasCalls(response)) history.push(...(await ctx.run('tools', () => callTools(response))));
        }
        ctx.set('messages', history);
        return history.length;
      },
    },
  });

const logErrors: restate.LoggerTransport = ({ level }, ...said) => {
  if (level === 'warn' || level === 'error') console.error(...said);
};

await contest('restate', async ({ databaseUrl, guarantees, stack }) => {
  const pool = openPool(stack, databaseUrl, 10);
  await pool.query(TEXT_TABLE);
  const service = guarantees === 'equal' ? sessionInParts(pool) : session;
  const port = await restate.serve({ services: [service], port: 0, logger: logErrors });
  const server = stack.use(await startRestateServer());
  await server.register(`http://127.0.0.1:${port}`);
  const ingress = clients.connect({ url: server.ingressUrl });
  return {
    syncCommit: guarantees === 'equal' && (await readSyncCommit(pool)) !== 'on' ? 'off' : server.syncCommit,
    async run(sessions, steps) {
      await Promise.all(sessions.map((key) => ingress.objectClient(session, key).run(steps)));
    },
    countStored: (prefix) => server.countRuns(prefix),
    countTexts: (prefix) => countTexts(pool, prefix),
  };
});
