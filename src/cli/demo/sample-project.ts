import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Task and message for the agent that fit the project below. */
export const SAMPLE_TASK =
  'A customer paid shipping for an order of exactly 100.00. Find out why: start at shippingCost, run the tests and name the line that is wrong.';
export const SAMPLE_MESSAGE = 'One more thing: can applyVoucher make a total negative?';

/** Its parts can be answered without each other. */
export const SAMPLE_TEAM_TASK =
  'Review this shop before its release: Who pays shippingCost? Can applyVoucher make a total negative? What adds up to orderTotal?';
export const GENERAL_TEAM_TASK =
  'Introduce this folder to a newcomer: What does its README say? Which TODO does it have? Where is its version written?';

/** Task and message for an unknown folder. */
export const GENERAL_TASK = 'Which TODO does this folder have, and what is each about?';
export const GENERAL_MESSAGE = 'One more thing: where is the version written?';

/** A small shop with a bug that its own test and its README contradict. */
const SAMPLE_PROJECT: Readonly<Record<string, string>> = {
  'README.md': `# Corner shop

Prices of an order, in cents.

- Shipping costs 4.90. Orders of 100.00 or more ship free.
- A voucher is taken off the goods, never off the shipping.

Run the tests with \`node --test\`. One of them fails at the moment.
`,
  'package.json': `{
  "name": "corner-shop",
  "version": "1.0.0",
  "private": true,
  "type": "module",
  "scripts": { "test": "node --test" }
}
`,
  'src/order.js': `import { shippingCost } from './shipping.js';
import { applyVoucher } from './voucher.js';

/** The price that the customer pays for an order, in cents. */
export function orderTotal({ items, voucher }) {
  const goods = items.reduce((sum, { price, count }) => sum + price * count, 0);
  return applyVoucher(goods, voucher) + shippingCost(goods);
}
`,
  'src/shipping.js': `// TODO: shippingCost says "more than 100.00" and the README says "100.00 or more". Who is right?
const FREE_FROM_CENTS = 100_00;
const FLAT_RATE_CENTS = 4_90;

/** The shippingCost of an order, in cents. */
export function shippingCost(goodsCents) {
  return goodsCents > FREE_FROM_CENTS ? 0 : FLAT_RATE_CENTS;
}
`,
  'src/voucher.js': `/** Takes a voucher off the price of the goods. TODO: a voucher worth more than the goods. */
export function applyVoucher(goodsCents, voucher) {
  if (voucher === undefined) return goodsCents;
  return goodsCents - voucher.cents;
}
`,
  'test/shipping.test.js': `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shippingCost } from '../src/shipping.js';

test('a small order pays for shipping, one of exactly 100.00 does not', () => {
  assert.deepEqual([99_99, 100_00].map(shippingCost), [4_90, 0]);
});
`,
};

export async function writeSampleProject(folder: string): Promise<void> {
  for (const [name, content] of Object.entries(SAMPLE_PROJECT)) {
    const file = join(folder, name);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
}
