import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import type { Dependencies } from '../../app/dependencies.ts';
import { BatonError } from '../../domain/errors.ts';
import { EmbeddedPostgresError } from '../../embedded/errors.ts';
import { type Composition, composeBaton } from '../../library/compose.ts';
import { type Config, loadConfig } from '../../platform/config.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { simulateWithoutModel } from '../simulate-without-model.ts';

const AGENTS_DIR = join(import.meta.dirname, '../../../agents');

export type DemoService = AsyncDisposable &
  Readonly<{
    url: string;
    backend: 'redis' | 'postgres';
    /** `provider/model`. */
    model: string;
    isSimulated: boolean;
    /** Description for people. */
    database: string;
    /** Whether the session can still be read after the demo. */
    keepsSessions: boolean;
    /** An unusual fact for the person. */
    remark: string | null;
  }>;

/**
 * Starts the whole service in this process, its API on a free port of 127.0.0.1. Unless the environment names others,
 * it uses an embedded Postgres and a simulated model. Its logs are off: the demo's output is for people.
 * @param agent one of those that come with Baton, whose model is asked
 * @throws BatonError `config_invalid`, `model_unavailable`, EmbeddedPostgresError; errors of unreachable services
 */
export async function startDemoService(
  environment: NodeJS.ProcessEnv,
  workspaceDir: string,
  agent: string,
): Promise<DemoService> {
  await using stack = new AsyncDisposableStack();
  const simulated = await simulateWithoutModel(environment, stack);
  const config = loadConfig({
    BATON_AGENTS_DIR: AGENTS_DIR,
    ...simulated,
    BATON_HOST: '127.0.0.1',
    BATON_PORT: '0',
    BATON_WORKSPACE_DIR: workspaceDir,
    BATON_LOG_LEVEL: 'silent',
    BATON_SHUTDOWN_GRACE_MS: '0',
  });
  const { baton, deps, remark } = await openWithFreeDataDir(config, stack);
  const { model } = (await deps.agents.current()).get(agent);
  checkModel(deps, model);
  await baton.startWorker();
  const { url } = await baton.listen();
  const owned = stack.move();
  return {
    url,
    backend: deps.jobs.backend,
    model,
    isSimulated: simulated !== environment,
    database: describeDatabase(deps.config),
    keepsSessions: remark === null,
    remark,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The demo's agent has its own model, whose provider may not be the configured one. */
function checkModel({ models }: Dependencies, model: string): void {
  try {
    models(model);
  } catch (error) {
    if (!(error instanceof BatonError)) throw error;
    throw new BatonError(error.code, `${error.message}; BATON_MODEL=provider/model names another`, { cause: error });
  }
}

type Opened = Pick<Composition, 'baton' | 'deps'> & Readonly<{ remark: string | null }>;

const COMPOSED = { migrate: true, openWithoutKeys: true };

/** If another process has the embedded database (`npm start` in the same folder), a temporary one is used. */
async function openWithFreeDataDir(config: Config, stack: AsyncDisposableStack): Promise<Opened> {
  try {
    return { ...stack.use(await composeBaton(config, COMPOSED)), remark: null };
  } catch (error) {
    if (!(error instanceof EmbeddedPostgresError) || error.code !== 'EMBEDDED_POSTGRES_IN_USE') throw error;
    const parent = await mkdtemp(join(tmpdir(), 'baton-demo-data-'));
    stack.defer(() => rm(parent, { recursive: true, force: true, maxRetries: 5 }));
    // PostgreSQL may run under another account, which needs access.
    await chmod(parent, 0o755);
    const dataDir = join(parent, 'data');
    const opened = stack.use(await composeBaton({ ...config, dataDir }, COMPOSED));
    return { ...opened, remark: `${error.message} The demo takes a temporary one, which is removed at the end.` };
  }
}

function describeDatabase({ databaseUrl, dataDir }: Config): string {
  if (databaseUrl === undefined) {
    const near = relative(process.cwd(), dataDir);
    return `PostgreSQL of its own, in ${near.startsWith('..') ? resolve(dataDir) : near}`;
  }
  // Never the URL itself: it may hold a password.
  const { hostname, port, pathname } = new URL(databaseUrl);
  return `PostgreSQL at ${hostname}${port === '' ? '' : `:${port}`}${pathname}`;
}
