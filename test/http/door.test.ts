import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextRound } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { LET_IN_PER_ROUND, MAX_STRANGERS_IN_LINE } from '../../src/domain/tunables.ts';
import { createDoor } from '../../src/http/door.ts';

/** A door, and the names of the requests that it has let in, in order. */
function openDoor() {
  const entered: string[] = [];
  const onFull = vi.fn<() => void>();
  const door = createDoor(({ url = '' }) => void entered.push(url), onFull);
  const knock = (url: string, headers: Readonly<Record<string, string>> = {}): ServerResponse => {
    const incoming = new IncomingMessage(new Socket());
    Object.assign(incoming, { url, headers });
    const outgoing = new ServerResponse(incoming);
    door(incoming, outgoing);
    return outgoing;
  };
  return { entered, knock, onFull };
}

const times = <T>(count: number, make: (no: number) => T): T[] => Array.from({ length: count }, (_, no) => make(no));

it('lets a sender in at the next turn, however many requests of another one wait', async () => {
  const { entered, knock } = openDoor();
  times(100, (no) => knock(`/crowd/${no}`, { authorization: 'Bearer crowd' }));
  knock('/neighbour', { 'x-api-key': 'neighbour' });
  expect(entered).toEqual(times(LET_IN_PER_ROUND, (no) => `/crowd/${no}`));
  await nextRound();
  expect(entered).toHaveLength(2 * LET_IN_PER_ROUND);
  expect(entered).toContain('/neighbour');
});

it('answers probes at once, and keeps the order of each sender', async () => {
  const { entered, knock } = openDoor();
  times(3 * LET_IN_PER_ROUND, (no) => knock(`/${no}`));
  knock('/livez');
  expect(entered.at(-1)).toBe('/livez');
  while (entered.length <= 3 * LET_IN_PER_ROUND) await nextRound();
  expect(entered.filter((url) => url !== '/livez')).toEqual(times(3 * LET_IN_PER_ROUND, (no) => `/${no}`));
});

it('sends strangers of one address away beyond the bound, and no caller with a key', async () => {
  const { entered, knock, onFull } = openDoor();
  const all = LET_IN_PER_ROUND + MAX_STRANGERS_IN_LINE;
  times(all, (no) => knock(`/${no}`));
  expect(onFull).not.toHaveBeenCalled();
  const refused = knock('/v1/hooks/orders?a=1');
  expect(onFull).toHaveBeenCalledOnce();
  const keyed = knock('/keyed', { authorization: 'Bearer key' });
  expect(refused.statusCode).toBe(503);
  expect(refused.getHeader('retry-after')).toBe('1');
  while (entered.length < all + 1) await nextRound();
  expect(entered).toContain('/keyed');
  expect(keyed.statusCode).toBe(200);
});

it('forgets requests whose connection has ended', async () => {
  const { entered, knock } = openDoor();
  times(LET_IN_PER_ROUND, (no) => knock(`/${no}`));
  knock('/gone').req.socket.destroy();
  knock('/after');
  await nextRound();
  expect(entered).not.toContain('/gone');
  expect(entered).toContain('/after');
});
