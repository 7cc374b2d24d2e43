import { setImmediate as nextRound } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createWriteSlots } from '../../src/http/write-slots.ts';

test('so many write in one round of the event loop, and all others in order in the turns after it', async () => {
  const takeTurn = createWriteSlots(10);
  const written: number[] = [];
  const write = async (no: number): Promise<void> => {
    const turn = takeTurn();
    if (turn !== null) await turn;
    written.push(no);
  };
  const all = Array.from({ length: 35 }, (_, no) => write(no));
  expect(written).toHaveLength(10);
  for (let before = written.length; before < 35; ) {
    await nextRound();
    expect(written.length - before).toBeLessThanOrEqual(10);
    before = written.length;
  }
  await Promise.all(all);
  expect(written).toEqual(Array.from({ length: 35 }, (_, no) => no));
  expect(takeTurn()).toBeNull();
});

test('a writer that comes later does not overtake those that wait', async () => {
  const takeTurn = createWriteSlots(1);
  expect(takeTurn()).toBeNull();
  const written: string[] = [];
  const second = takeTurn()?.then(() => written.push('second'));
  const third = takeTurn()?.then(() => written.push('third'));
  await second;
  const fourth = takeTurn()?.then(() => written.push('fourth'));
  await Promise.all([third, fourth]);
  expect(written).toEqual(['second', 'third', 'fourth']);
});
