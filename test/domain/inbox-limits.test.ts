import { expect, it } from 'vitest';
import { fitsInbox } from '../../src/domain/run/inbox-limits.ts';

const limits = { messages: 3, bytes: 100 };

it.each([
  ['one that waits alone, however large it is', { messages: 0, bytes: 0 }, 1_000, true],
  ['the last one that there is room for', { messages: 2, bytes: 60 }, 40, true],
  ['one byte more', { messages: 2, bytes: 60 }, 41, false],
  ['one message more', { messages: 3, bytes: 3 }, 1, false],
])('%s: %j and %i', (_name, waiting, contentBytes, fits) => {
  expect(fitsInbox(limits, waiting, contentBytes)).toBe(fits);
});
