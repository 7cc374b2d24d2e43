import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import type { Queue } from 'bullmq';
import { Hono, type MiddlewareHandler } from 'hono';
import { secureHeaders } from 'hono/secure-headers';
import { ProblemError } from './problem.ts';

/** Where the board is served. */
export const BOARD_PATH = '/admin/queues';

export type BoardOptions = Readonly<{
  queues: readonly Queue[];
  /** Nothing can be changed: every request that is not a GET is refused with 405. */
  isReadOnly: boolean;
}>;

const REDACTED = '[redacted]';

/**
 * Bull Board over the queues: what waits, what is at work, and the jobs whose run failed. It shows ids and states; what
 * a job returned or failed with is not shown beyond the code of its error.
 */
export function createBoard({ queues, isReadOnly }: BoardOptions): Hono {
  const serverAdapter = new HonoAdapter(serveStatic);
  serverAdapter.setBasePath(BOARD_PATH);
  const adapters = queues.map((queue) => {
    const adapter = new BullMQAdapter(queue, { readOnlyMode: isReadOnly });
    adapter.setFormatter('returnValue', () => REDACTED);
    adapter.setFormatter('progress', () => REDACTED);
    return adapter;
  });
  createBullBoard({ queues: adapters, serverAdapter, options: { uiConfig: { boardTitle: 'Baton' } } });
  const board = new Hono();
  board.use(boardHeaders);
  if (isReadOnly) board.use(onlyReads);
  board.route('/', serverAdapter.registerPlugin());
  return board;
}

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
