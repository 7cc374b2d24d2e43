import { createOpenAI } from '@ai-sdk/openai';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import { createBaton } from '../../src/library/baton.ts';
import type { Baton, BatonOptions } from '../../src/library/contract.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

export type InProcess = AsyncDisposable &
  Readonly<{
    baton: Baton;
    simulator: Simulator;
    database: TestDatabase;
    /** Opens Baton once more, on the same database. */
    again: (options?: Partial<BatonOptions>) => Promise<Baton>;
    logged: readonly object[];
  }>;

/** Baton in this process, with a model of the AI SDK that asks the simulated provider over HTTP. */
export async function startInProcess(
  optionsOf: (model: ReturnType<ReturnType<typeof createOpenAI>>) => Partial<BatonOptions>,
): Promise<InProcess> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await createTestDatabase());
  const simulator = stack.use(await startSimulator());
  const openai = createOpenAI({ baseURL: `${simulator.url}/v1`, apiKey: 'of the program' });
  const opened = stack.use(new AsyncDisposableStack());
  const logged: object[] = [];
  const keep = (entry: object): void => void logged.push(entry);
  const again = async (options: Partial<BatonOptions> = {}): Promise<Baton> =>
    opened.use(
      await createBaton({
        databaseUrl: database.connectionString,
        log: { debug: keep, info: keep, warn: keep, error: keep },
        ...optionsOf(openai('test')),
        ...options,
      }),
    );
  const baton = await again();
  const owned = stack.move();
  return { baton, simulator, database, again, logged, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
