import type { MiddlewareHandler } from 'hono';
import type { HttpEnv } from '../http-env.ts';
import { frameSourceOf } from '../sse.ts';

/** The requests of one tenant that hold a slot, and those in line for one. */
type Line = { held: number; readonly waiting: (() => void)[] };

/** A request that is at work for longer gives its slot to the next one: it waits, for a lock say, and needs no processor. */
const SLOT_MS = 100;

/**
 * Works on a few requests of each tenant at a time; its others wait in the order in which they came. So a request of
 * another tenant shares this process and its connections to Postgres with a few, however many one tenant sends.
 *
 * A stream, a completion or a wait has its slot until it is open: then it is idle nearly all the time, and has a limit of
 * its own.
 *
 * It comes after the body is read, because a client may send that as slowly as it likes.
 * @param atOnce most requests of a tenant that hold a slot
 */
export function takeRequestSlots(atOnce: number, slotMs = SLOT_MS): MiddlewareHandler<HttpEnv> {
  const lines = new Map<string, Line>();
  return async (c, next) => {
    const tenantId = c.get('caller')?.tenantId;
    if (tenantId === undefined) return next();
    const line = lines.get(tenantId) ?? { held: 0, waiting: [] };
    lines.set(tenantId, line);
    if (line.held < atOnce) line.held += 1;
    else await new Promise<void>((resolve) => line.waiting.push(resolve));
    let isHeld = true;
    const passOn = (): void => {
      if (!isHeld) return;
      isHeld = false;
      const successor = line.waiting.shift();
      if (successor !== undefined) successor();
      else if (--line.held === 0) lines.delete(tenantId);
    };
    const timer = setTimeout(passOn, slotMs);
    const freeSlot = (): void => {
      clearTimeout(timer);
      passOn();
    };
    c.set('freeSlot', freeSlot);
    try {
      await next();
    } finally {
      const stream = frameSourceOf(c.res);
      if (stream === null) freeSlot();
      else void stream.opened.then(freeSlot);
    }
  };
}
