import { expect, it } from 'vitest';
import { REMEDIES, type Remedy } from '../../src/domain/model/retry-policy.ts';
import { readPage } from '../support/pasted.ts';

/** The first code of the rows of each remedy, by which the page tells them apart. */
const ROWS: Readonly<Record<string, Remedy>> = {
  rate_limited: 'wait',
  quota: 'none',
  input_overflow: 'compact',
  output_reserve_overflow: 'shrink_output',
  byte_overflow: 'strip_media',
  tools_unsupported: 'drop_tools',
  auth: 'none',
};

it('docs/providers.md says of each failure of a provider what Baton does', async () => {
  const [, table = ''] =
    /\| code \| Baton \|\n\|---\|---\|\n((?:\|.*\n)+)/.exec(await readPage('docs/providers.md')) ?? [];
  const told = table
    .trimEnd()
    .split('\n')
    .flatMap((row) => {
      const codes = [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, code = '']) => code);
      return codes.map((code) => [code, ROWS[codes[0] ?? '']]);
    });
  expect(Object.fromEntries(told)).toEqual(REMEDIES);
});
