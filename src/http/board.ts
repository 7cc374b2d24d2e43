import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import type { Job, Queue } from 'bullmq';
import { Hono, type MiddlewareHandler } from 'hono';
import { secureHeaders } from 'hono/secure-headers';
import { formatId } from '../domain/ids.ts';
import { queuedJobSchema } from '../domain/run/job.ts';
import type { RunOwner } from '../store/runs.ts';
import { ProblemError } from './bodies/problem.ts';

/** Where the board is served. */
export const BOARD_PATH = '/admin/queues';

export type BoardOptions = Readonly<{
  queues: readonly Queue[];
  findOwners: FindOwners;
  /** Nothing can be changed: every request that is not a GET is refused with 405. */
  isReadOnly: boolean;
}>;

/**
 * Bull Board over the queues: what waits, what is at work, what was done, and the jobs whose run failed. It shows ids,
 * states and numbers, and why a run failed; nothing of what was said in it.
 */
export function createBoard({ queues, findOwners, isReadOnly }: BoardOptions): Hono {
  const serverAdapter = new HonoAdapter(serveStatic);
  serverAdapter.setBasePath(BOARD_PATH);
  const adapters = queues.map((queue) => new OwnedJobs(queue, findOwners, isReadOnly));
  createBullBoard({ queues: adapters, serverAdapter, options: { uiConfig: { boardTitle: 'Baton' } } });
  const board = new Hono();
  board.use(boardHeaders, withoutForeignFonts);
  if (isReadOnly) board.use(onlyReads);
  board.route('/', serverAdapter.registerPlugin());
  return board;
}

/** The runs of those ids (UUIDs) that there still are. */
type FindOwners = (runIds: readonly string[]) => Promise<readonly RunOwner[]>;

/** The jobs of a queue, each with whose it is, which is read when somebody looks: a job itself has only what it needs. */
class OwnedJobs extends BullMQAdapter {
  readonly #findOwners: FindOwners;

  constructor(queue: Queue, findOwners: FindOwners, isReadOnly: boolean) {
    super(queue, { readOnlyMode: isReadOnly });
    this.#findOwners = findOwners;
  }

  override async getJob(id: string): Promise<Job | undefined> {
    const job = await super.getJob(id);
    if (job !== undefined) await this.#tellOwners([job]);
    return job;
  }

  override async getJobs(...asked: Parameters<BullMQAdapter['getJobs']>): Promise<Job[]> {
    const jobs = await super.getJobs(...asked);
    await this.#tellOwners(jobs);
    return jobs;
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

/** Its page asks others for a font, which its headers forbid: each load would print an error. */
const withoutForeignFonts: MiddlewareHandler = async (c, next) => {
  await next();
  if (c.res.headers.get('content-type')?.startsWith('text/html') !== true) return;
  const page = await c.res.text();
  c.res = new Response(page.replaceAll(/<link href="https:\/\/[^>]*>/g, ''), c.res);
};

const onlyReads: MiddlewareHandler = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  const detail = 'The board is read-only: BATON_ADMIN_READ_ONLY=false lifts that';
  throw new ProblemError('method_not_allowed', detail, { headers: { allow: 'GET, HEAD' } });
};

/** The board is a page with scripts of its own and nobody else's; its styles are partly inline. */
const boardHeaders = secureHeaders({
  strictTransportSecurity: false,
  xFrameOptions: 'DENY',
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'", "'unsafe-inline'"],
    imgSrc: ["'self'", 'data:'],
    fontSrc: ["'self'"],
    connectSrc: ["'self'"],
    baseUri: ["'self'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
});
