import type { IncomingMessage } from 'node:http';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import type { Job, JobType, Queue } from 'bullmq';
import { Hono, type MiddlewareHandler } from 'hono';
import { z } from 'zod';
import { BOARD_PATH, boardSecretOf, CONSOLE_PATH } from '../domain/access.ts';
import { formatId } from '../domain/ids.ts';
import { queuedJobSchema } from '../domain/run/job.ts';
import type { RunOwner } from '../store/session/runs.ts';
import { ProblemError } from './bodies/problem.ts';
import type { ServerBindings } from './http-env.ts';
import { pageHeaders } from './page-headers.ts';

export type BoardOptions = Readonly<{
  queues: readonly Queue[];
  findOwners: FindOwners;
  /** True: every request other than GET and HEAD is refused with 405. */
  isReadOnly: boolean;
}>;

/** Bull Board over the queues. It shows ids, states, numbers and why a run failed, never a conversation's content. */
export function createBoard({ queues, findOwners, isReadOnly }: BoardOptions): Hono {
  const serverAdapter = new HonoAdapter(serveStatic);
  serverAdapter.setBasePath(BOARD_PATH);
  const adapters = queues.map((queue) => new OwnedJobs(queue, findOwners, isReadOnly));
  const uiConfig = { boardTitle: 'Baton', miscLinks: [{ text: 'Console', url: `${FROM_BOARD}/` }] };
  createBullBoard({ queues: adapters, serverAdapter, options: { uiConfig } });
  const board = new Hono();
  board.use(boardHeaders, ownPage);
  if (isReadOnly) board.use(onlyReads);
  for (const bound of ['concurrency', 'rate-limit']) board.all(`/api/queues/:queue/${bound}`, withoutBounds);
  board.route('/', serverAdapter.registerPlugin());
  return board;
}

/** The console, seen from the base of the board's pages. */
const FROM_BOARD = `../..${CONSOLE_PATH}`;

/** The way from a job to its session. A deleted one has none. */
function linkOf(data: unknown): Readonly<{ displayText: string; href: string }> {
  const { sessionId } = jobOwnerSchema.safeParse(data).data ?? {};
  if (sessionId === undefined) return { displayText: 'Sessions', href: `${FROM_BOARD}/sessions` };
  return { displayText: 'Its session', href: `${FROM_BOARD}/sessions/${sessionId}` };
}

const jobOwnerSchema = z.object({ sessionId: z.string() });

/** Looks up runs by id (UUIDs). Deleted runs are missing from the result. */
type FindOwners = (runIds: readonly string[]) => Promise<readonly RunOwner[]>;

/** The jobs of a queue with their owners. Owners are read when a page is shown, because a job carries ids only. */
class OwnedJobs extends BullMQAdapter {
  readonly #queue: Queue;
  readonly #findOwners: FindOwners;

  constructor(queue: Queue, findOwners: FindOwners, isReadOnly: boolean) {
    super(queue, { readOnlyMode: isReadOnly, externalJobUrl: ({ data }) => linkOf(data) });
    this.#queue = queue;
    this.#findOwners = findOwners;
  }

  override async getJob(id: string): Promise<Job | undefined> {
    const job = await super.getJob(id);
    if (job !== undefined) await this.#tellOwners([job]);
    return job;
  }

  override async getJobs(...parameters: Parameters<BullMQAdapter['getJobs']>): Promise<Job[]> {
    const jobs = await super.getJobs(...parameters);
    await this.#tellOwners(jobs);
    return jobs;
  }

  /** Over Postgres, what waits in a paused queue is counted under a state that has no tab. */
  override async getJobCounts(): ReturnType<BullMQAdapter['getJobCounts']> {
    const counts = await super.getJobCounts();
    const { paused = 0 } = await this.#queue.getJobCounts('paused' as JobType);
    return { ...counts, waiting: (counts.waiting ?? 0) + paused };
  }

  async #tellOwners(jobs: readonly Job[]): Promise<void> {
    const queued = jobs.flatMap((job) => {
      const payload = queuedJobSchema.safeParse(job.data);
      return payload.success ? [{ job, runId: payload.data.runId }] : [];
    });
    const owners = await this.#findOwners([...new Set(queued.map(({ runId }) => runId))]);
    const byRun = new Map(owners.map((owner) => [owner.runId, owner]));
    for (const { job, runId } of queued) {
      const owner = byRun.get(runId);
      if (owner === undefined) continue;
      const { sessionId, agent, tenant } = owner;
      job.data = { ...job.data, sessionId: formatId('session', sessionId), agent, tenant };
    }
  }
}

/**
 * Removes the page's link to a web font: the page's headers forbid it, so each load would print an error. The base of a
 * page has the place at which a program mounts it, and the secret of a login that is in its address.
 */
const ownPage: MiddlewareHandler = async (c, next) => {
  await next();
  if (c.res.headers.get('content-type')?.startsWith('text/html') !== true) return;
  const secret = boardSecretOf(new URL(c.req.url).pathname);
  const { incoming } = c.env as ServerBindings;
  const base = `${mountedAt(incoming)}${BOARD_PATH}${secret === null ? '' : `~${secret}`}`;
  const page = (await c.res.text()).replaceAll(/<link href="https:\/\/[^>]*>/g, '');
  c.res = new Response(page.replace(`<base href="${BOARD_PATH}`, `<base href="${base}`), c.res);
};

const onlyReads: MiddlewareHandler = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  const detail = 'The board is read-only: BATON_ADMIN_READ_ONLY=false lifts that';
  throw new ProblemError('method_not_allowed', detail, { headers: { allow: 'GET, HEAD' } });
};

/**
 * A step that is carried on does not ask its queue. Over Postgres each idle worker of a queue with such a bound would
 * ask for jobs a hundred times a second.
 */
const withoutBounds: MiddlewareHandler = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  const detail =
    'A bound of the queue would not bound the work: set BATON_STEP_CONCURRENCY or BATON_TENANT_CONCURRENCY, or pause the queue';
  throw new ProblemError('method_not_allowed', detail, { headers: { allow: 'GET, HEAD' } });
};

const boardHeaders = pageHeaders({ fontSrc: ["'self'"], baseUri: ["'self'"], formAction: ["'self'"] });

/**
 * The path at which a program of Express has mounted the API: Express takes it off `url`, and leaves it in `originalUrl`.
 * Empty: at none, or the program does not say.
 */
function mountedAt(incoming: IncomingMessage | undefined): string {
  if (incoming === undefined || !('originalUrl' in incoming)) return '';
  const { originalUrl, url = '' } = incoming;
  if (typeof originalUrl !== 'string' || url === '' || !originalUrl.endsWith(url)) return '';
  const prefix = originalUrl.slice(0, -url.length);
  return /^(?:\/[\w.~-]+)*$/.test(prefix) ? prefix : '';
}
