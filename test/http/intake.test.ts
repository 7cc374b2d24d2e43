import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bodyBudget } from '../../src/domain/body-budget.ts';
import { collectBytes } from '../../src/http/body-bytes.ts';
import { createIntake, type Sender } from '../../src/http/intake.ts';

const A: Sender = { kind: 'tenant', id: 'a' };
const B: Sender = { kind: 'tenant', id: 'b' };
const near: Sender = { kind: 'stranger', network: '10.0.0.1' };
const far: Sender = { kind: 'stranger', network: '10.0.0.2' };
const budget = { tenants: 100_000, tenant: 60_000, strangers: 30_000, stranger: 20_000 };
const full = expect.objectContaining({ code: 'intake_full' });

function unlessFull(act: () => void): void {
  try {
    act();
  } catch (error) {
    expect(error).toEqual(full);
  }
}

describe('the room for bodies', () => {
  test.each([
    ['a process of 512 MiB', 560 * 1_048_576, undefined, 70],
    ['a small process', 64 * 1_048_576, undefined, 32],
    ['a large process', 16_384 * 1_048_576, undefined, 256],
    ['a setting', 64 * 1_048_576, 4_096 * 1_048_576, 4_096],
  ])('is by the heap or the setting: %s', (_what, heap, given, mib) => {
    const { tenants, tenant } = bodyBudget(heap, given);
    expect(Math.floor(tenants / 1_048_576)).toBe(mib);
    expect(tenant).toBeGreaterThanOrEqual(20 * 1_048_576);
    expect(tenant).toBeLessThanOrEqual(tenants);
  });

  test('is one of a sender and one of all, and comes back once', () => {
    const intake = createIntake(budget, () => 0);
    const rooms = [intake.admit(A, 50_000, () => undefined), intake.admit(B, 45_000, () => undefined)];
    expect(() => intake.admit(A, 11_000, () => undefined)).toThrow(full);
    expect(() => intake.admit(B, 6_000, () => undefined)).toThrow(full);
    expect(() => rooms[1]?.grow(51_000)).toThrow(full);
    rooms[1]?.grow(50_000);
    for (const room of [...rooms, ...rooms]) room.release();
    expect(intake.heldBytes()).toBe(0);
    rooms[0]?.grow(60_000);
    expect(intake.heldBytes()).toBe(0);
  });

  test('of strangers is apart from that of tenants, and each address has a part of it', () => {
    const intake = createIntake(budget, () => 0);
    const room = intake.admit(near, 20_000, () => undefined);
    expect(() => intake.admit(near, 1, () => undefined)).toThrow(full);
    intake.admit(far, 10_000, () => undefined);
    expect(() => intake.admit(far, 5_000, () => undefined)).toThrow(full);
    room.moveTo(A);
    intake.admit(far, 5_000, () => undefined);
    expect(intake.heldBytes()).toBe(35_000);
  });

  test('is taken from bodies that have stalled, the oldest first, and from no others', () => {
    let now = 0;
    const intake = createIntake(budget, () => now);
    const gone: string[] = [];
    const admit = (name: string, bytes = 20_000) => intake.admit(A, bytes, () => void gone.push(name));
    const [whole, , fast] = [admit('whole'), admit('slow'), admit('fast')];
    whole.complete();
    now = 900;
    fast.arrived(8_192);
    expect(() => admit('early', 5_000)).toThrow(full);
    now = 1_500;
    admit('new', 5_000);
    expect(gone).toEqual(['slow']);
    expect(() => admit('large', 60_000)).toThrow(full);
    expect(gone).toEqual(['slow']);
    expect(intake.heldBytes()).toBe(45_000);
  });

  test('never holds more than it may, and nothing when all have ended', () => {
    const senders = [A, B, near, far];
    type Room = ReturnType<ReturnType<typeof createIntake>['admit']>;
    const does: Readonly<Record<string, (room: Room, bytes: number, sender: Sender) => void>> = {
      grow: (room, bytes) => room.grow(bytes),
      arrived: (room, bytes) => room.arrived(bytes),
      complete: (room) => room.complete(),
      move: (room, _bytes, sender) => room.moveTo(sender),
      release: (room) => room.release(),
    };
    const step = fc.record({
      kind: fc.constantFrom('admit', 'time', ...Object.keys(does)),
      which: fc.nat(8),
      bytes: fc.nat(70_000),
    });
    const play = (steps: readonly { kind: string; which: number; bytes: number }[]): void => {
      let now = 0;
      const intake = createIntake(budget, () => now);
      const rooms: Room[] = [];
      for (const { kind, which, bytes } of steps) {
        const sender = senders[which % senders.length] ?? A;
        const room = rooms[which % Math.max(1, rooms.length)];
        if (kind === 'time') now += bytes / 20;
        unlessFull(() => {
          if (kind === 'admit') rooms.push(intake.admit(sender, bytes, () => undefined));
          else if (room !== undefined) does[kind]?.(room, bytes, sender);
        });
        expect(intake.heldBytes()).toBeLessThanOrEqual(budget.tenants + budget.strangers);
        expect(intake.heldBytes()).toBeGreaterThanOrEqual(0);
      }
      for (const room of rooms) room.release();
      expect(intake.heldBytes()).toBe(0);
    };
    fc.assert(fc.property(fc.array(step, { maxLength: 60 }), play));
  });
});

test('bytes come out as they went in, and take no more memory than was said', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 9_000 }), { maxLength: 30 }),
      fc.boolean(),
      (chunks, isDeclared) => {
        const all = Buffer.concat(chunks);
        const bytes = collectBytes(isDeclared ? all.length : null);
        for (const chunk of chunks) {
          expect(bytes.sizeWith(chunk.length)).toBeGreaterThanOrEqual(bytes.length() + chunk.length);
          bytes.add(chunk);
        }
        expect(bytes.whole().equals(all)).toBe(true);
      },
    ),
  );
});
