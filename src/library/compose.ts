import type { ProgramAccess } from '../app/api-server.ts';
import { type Dependencies, type DependencyOptions, openDependencies } from '../app/dependencies.ts';
import { startJobWorker } from '../app/job-worker.ts';
import { type BatonClient, type ClientOptions, createClient } from '../client/client.ts';
import { refuseWrongOptions } from '../client/wrong-options.ts';
import type { Declarations } from '../declarations/declarations.ts';
import { DEFAULT_TENANT_ID, SCOPES } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { JOB_KINDS, type JobKind } from '../domain/run/job.ts';
import type { BatonApp, ServerBindings } from '../http/http-env.ts';
import { type Config, configOf } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import type { Baton, WorkerOptions } from './contract.ts';
import { createKeys } from './keys.ts';
import { createSendIn } from './send-in.ts';
import { refuseNoTenant } from './tenant.ts';

/** A name of the API for requests that never leave the process. */
const OWN_URL = 'http://baton.internal';

export type CompositionOptions = DependencyOptions &
  Readonly<{
    access?: ProgramAccess;
    openWithoutKeys: boolean;
    parseJson?: ClientOptions['parseJson'];
    /** Reads the webhooks and schedules that `declare` puts. Absent: nothing is declared. */
    readDeclarations?: (deps: Dependencies) => Promise<Declarations>;
  }>;

/** Baton with the parts that it is made of, for the programs of this repository. Disposing it stops Baton. */
export type Composition = AsyncDisposable &
  Readonly<{
    baton: Baton;
    deps: Dependencies;
    /** Opens the API now, not with its first use. @throws BatonError `config_invalid` for a wrong file of hooks */
    openApi: () => Promise<BatonApp>;
    /**
     * Puts what is declared, once; `listen` does so before it serves.
     * @throws BatonError `config_invalid` that names the place
     */
    declare: () => Promise<void>;
    /** Ends this part when Baton stops, at the same time as its workers. */
    stopWithWorkers: (part: AsyncDisposable) => void;
  }>;

/**
 * Puts Baton together in this process, from its settings: for a program that calls `createBaton`, and for each process
 * of the service.
 * @throws BatonError `config_invalid`; `store_unavailable` for a Postgres or Redis that cannot be reached
 */
export async function composeBaton(
  config: Config,
  { access = {}, openWithoutKeys, parseJson, readDeclarations, ...options }: CompositionOptions,
): Promise<Composition> {
  await using stack = new AsyncDisposableStack();
  const deps = stack.use(await openDependencies(config, options));
  const shutdown = new AbortController();
  const { allowedHosts = null } = config;
  const bindings = { shutdown: shutdown.signal, allowedHosts, openWithoutKeys };
  const openApi = openOnce(deps, stack.use(new AsyncDisposableStack()), access);
  const declare = once(async () => {
    if (readDeclarations === undefined) return;
    const [{ declare: put }, { webhookPolicyOf }, declarations] = await Promise.all([
      import('../declarations/declare.ts'),
      import('../webhooks/check-webhook.ts'),
      readDeclarations(deps),
    ]);
    await put({ ...deps, webhookPolicy: webhookPolicyOf(config) }, declarations);
  });
  const servers = new AsyncDisposableStack();
  const workers = createWorkers(deps);
  const sending = createSendIn(deps);
  stack.defer(async () => {
    shutdown.abort();
    await servers.disposeAsync();
    await Promise.all([workers.stop(), sending[Symbol.asyncDispose]()]);
  });
  const clientOf = (tenantId: string) => {
    refuseNoTenant(tenantId);
    return clientIn(openApi, { tenantId, shutdown: shutdown.signal, parseJson });
  };
  const client = clientOf(DEFAULT_TENANT_ID);
  const openListener = once(async () => {
    const { listenerOf } = await import('../http/server.ts');
    return listenerOf(await openApi(), bindings);
  });
  const owned = stack.move();
  const baton: Baton = {
    client,
    clientOf,
    fetch: async (request) => (await openApi()).fetch(checkRequest(request), bindings),
    async handler(request, response) {
      const answer = await openListener();
      await answer(request, response);
    },
    async listen() {
      await declare();
      const { serveApp } = await import('../app/api-server.ts');
      return servers.use(await serveApp(deps, await openApi(), openWithoutKeys && !hasOwnLogin(access)));
    },
    ...refuseWrongOptions(
      {
        startWorker: workers.start,
        keys: createKeys(deps),
        sendIn: sending.send,
        async stop({ graceMs }: Readonly<{ graceMs?: number }> = {}) {
          workers.setGrace(graceMs);
          await owned.disposeAsync();
        },
      },
      refusalOf,
    ),
    readiness: client.readiness,
    lost: deps.lost,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  return {
    baton,
    deps,
    openApi,
    declare,
    stopWithWorkers: workers.add,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * Opens the API with its first use. A process without requests loads no routes and measures none of the API's gauges.
 */
function openOnce(deps: Dependencies, stack: AsyncDisposableStack, access: ProgramAccess): () => Promise<BatonApp> {
  return once(async () => {
    const { openApp } = await import('../app/api-server.ts');
    return openApp(deps, stack, access);
  });
}

/** A request of another implementation is one, too. @throws BatonError `invalid_request` */
function checkRequest(request: Request): Request {
  const { url, method, headers } = (request ?? {}) as Partial<Record<'url' | 'method' | 'headers', unknown>>;
  if (typeof url === 'string' && typeof method === 'string' && typeof headers === 'object' && headers !== null) {
    return request;
  }
  const example = "baton.fetch(new Request('http://localhost/v1/agents'))";
  throw refusalOf(`baton.fetch expects a Request, as in ${example}`);
}

const refusalOf = (problem: string): BatonError => new BatonError('invalid_request', problem);

/** Whether the program says who may enter. Then nobody enters without a word of it, or a key. */
const hasOwnLogin = ({ authenticate, consoleAccess }: ProgramAccess): boolean =>
  authenticate !== undefined || consoleAccess?.authenticate !== undefined;

/** Calls `make` at the first call. Later calls get the same result. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= make();
    return result;
  };
}

function clientIn(
  openApi: () => Promise<BatonApp>,
  {
    tenantId,
    shutdown,
    parseJson,
  }: Readonly<{ tenantId: string; shutdown: AbortSignal; parseJson: ClientOptions['parseJson'] }>,
): BatonClient {
  const bindings: ServerBindings = { shutdown, caller: { tenantId, keyId: null, scopes: SCOPES } };
  return createClient({
    baseUrl: OWN_URL,
    parseJson,
    fetch: async (url, init) => (await openApi()).fetch(new Request(url, init), bindings),
  });
}

function createWorkers(deps: Dependencies) {
  const { config } = deps;
  const running = new Set<AsyncDisposable>();
  let graceMs = config.shutdownGraceMs;
  return {
    async start({ steps = config.stepConcurrency, kinds = JOB_KINDS }: WorkerOptions = {}): Promise<AsyncDisposable> {
      refuseUnknown(kinds);
      const { stepConcurrency } = configOf({ stepConcurrency: steps });
      const worker = await startJobWorker({ ...deps, config: { ...config, stepConcurrency } }, kinds, () => graceMs);
      running.add(worker);
      return {
        async [Symbol.asyncDispose]() {
          if (running.delete(worker)) await worker[Symbol.asyncDispose]();
        },
      };
    },
    add: (part: AsyncDisposable): void => void running.add(part),
    setGrace(milliseconds: number | undefined): void {
      graceMs = milliseconds ?? graceMs;
    },
    async stop(): Promise<void> {
      const stopping = [...running];
      running.clear();
      await Promise.all(stopping.map((worker) => worker[Symbol.asyncDispose]()));
    },
  };
}

/** @throws BatonError `config_invalid` */
function refuseUnknown(kinds: readonly JobKind[]): void {
  if (Array.isArray(kinds) && kinds.length > 0 && kinds.every((kind) => JOB_KINDS.includes(kind))) return;
  throw new BatonError('config_invalid', `kinds: expected one or more of ${JOB_KINDS.join(', ')}`);
}
