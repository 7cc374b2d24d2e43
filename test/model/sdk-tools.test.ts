import { asSchema } from 'ai';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { toSdkTools } from '../../src/model/stream-answer.ts';
import type { Tool } from '../../src/tools/tool.ts';

it.each<[string, unknown, object]>([
  [
    'a definition',
    { $ref: '#/$defs/A', $defs: { A: { type: 'object', required: ['a'] } } },
    { type: 'object', required: ['a'], $defs: { A: { type: 'object', required: ['a'] } } },
  ],
  [
    'a choice of zod',
    z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]),
    { type: 'object', anyOf: [{ required: ['a'] }, { required: ['b'] }] },
  ],
])('a module whose schema has %s at its root offers an object', async (_, inputSchema, schema) => {
  const tool: Tool = { name: 'a', description: 'A.', inputSchema: inputSchema as Tool['inputSchema'] };
  expect(await asSchema(toSdkTools([tool])['a']?.inputSchema).jsonSchema).toMatchObject(schema);
});
