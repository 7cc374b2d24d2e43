import { expect, it } from 'vitest';
import { BatonError } from '../../src/domain/errors.ts';
import { FREE_RESULT_BYTES } from '../../src/domain/tunables.ts';
import type { TakeRoom } from '../../src/platform/arriving-bytes.ts';
import { createLineRooms } from '../../src/tools/mcp/line-rooms.ts';
import { createMcpFixture, createServerFiles } from './mcp-fixture.ts';

const MIB = 1_048_576;
const BUDGET = { all: 4 * MIB, tenant: 2 * MIB };

it('messages of servers that have not ended have a bound in sum, small ones aside', () => {
  const rooms = createLineRooms(BUDGET);
  using first = rooms.open();
  first.hold(3 * MIB);
  const second = rooms.open();
  for (const bytes of [FREE_RESULT_BYTES, MIB]) second.hold(bytes);
  using third = rooms.open();
  third.hold(FREE_RESULT_BYTES);
  expect(() => third.hold(FREE_RESULT_BYTES + 1)).toThrow(BatonError);
  // What is not held is free again: after a message, and after its server.
  first.hold(0);
  second[Symbol.dispose]();
  third.hold(4 * MIB);
});

it('messages that wait for the room of their calls have a bound in sum and for each tenant', () => {
  const rooms = createLineRooms(BUDGET);
  const [a, b] = [rooms.wait('a', 2 * MIB), rooms.wait('b', MIB)];
  expect(rooms.wait('a', 1)).toBeNull();
  expect(rooms.wait('c', MIB + 1)).toBeNull();
  a?.[Symbol.dispose]();
  expect(rooms.wait('c', 2 * MIB)).not.toBeNull();
  b?.[Symbol.dispose]();
  expect(rooms.wait('a', 2 * MIB)).not.toBeNull();
});

it('a large answer over stdio waits for the room of its call, and holds up no other', async () => {
  const answer = { content: [{ type: 'text', text: 'x'.repeat(1_000_000) }] };
  using files = createServerFiles({ name: 'large', answer }, { name: 'small' });
  await using fixture = createMcpFixture({ own: files.config });
  const agent = await fixture.pin([{ mcp: 'own' }]);
  const { promise: free, resolve: letIn } = Promise.withResolvers<void>();
  const asked: [number, number][] = [];
  const takeRoom: TakeRoom = (bytes, mostBytes) => {
    asked.push([bytes, mostBytes]);
    return free;
  };
  const large = fixture.call(agent, 'own__large', {}, undefined, undefined, takeRoom);
  await expect.poll(() => asked).toHaveLength(1);
  expect(await fixture.call(agent, 'own__small', {}, undefined, undefined, takeRoom)).toContain('small');
  letIn();
  expect(await large).toHaveLength(1_000_000);
  const [[bytes = 0, mostBytes] = []] = asked;
  expect(bytes).toBeGreaterThan(1_000_000);
  expect([asked.length, mostBytes]).toEqual([1, bytes]);
});
