// Restate: a session is a virtual object, a step is a `ctx.run`. Its server keeps the journal; it is started here with
// the configuration that it comes with, and its data on the disk of the temporary folder.
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';
import type { ModelMessage } from 'ai';
import { firstMessage, runModelStep } from '../chain/step.ts';
import { contest } from './contest.ts';
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

const logErrors: restate.LoggerTransport = ({ level }, ...said) => {
  if (level === 'warn' || level === 'error') console.error(...said);
};

await contest('restate', async ({ stack }) => {
  const port = await restate.serve({ services: [session], port: 0, logger: logErrors });
  const server = stack.use(await startRestateServer());
  await server.register(`http://127.0.0.1:${port}`);
  const ingress = clients.connect({ url: server.ingressUrl });
  return {
    syncCommit: server.syncCommit,
    async run(sessions, steps) {
      await Promise.all(sessions.map((key) => ingress.objectClient(session, key).run(steps)));
    },
    countStored: (prefix) => server.countRuns(prefix),
  };
});
