import { expect, it } from 'vitest';
import { parseExactly } from '../../../src/domain/exact-json.ts';
import { withSchemasAsText, writeSchemas } from '../../../src/model/wire/written-schemas.ts';

const SCHEMA = '{"type":"object","properties":{"b":{"pattern":"\\\\d{1}\\"","minimum":1.0},"7":{}},"required":["b"]}';
const SORTED = '{"type":"object","properties":{"7":{},"b":{}}}';

it('schemas whose keys a copy would move come into a body as they were written, and others as they are', () => {
  const schemas = [SCHEMA, SORTED].map((text) => parseExactly(text) as { type: 'object' });
  const request = withSchemasAsText({
    tools: schemas.map((inputSchema, at) => ({ type: 'function' as const, name: `t${at}`, inputSchema })),
    responseFormat: { type: 'json', schema: schemas[0] ?? {} },
  });
  const says = '{"type":"object","baton/schema":"\\"{}\\""}';
  const body = writeSchemas(JSON.stringify({ ...structuredClone(request), says }));
  expect(body).toContain(`"name":"t0","inputSchema":${SCHEMA}`);
  expect(body).toContain(`"name":"t1","inputSchema":${SORTED}`);
  expect(body).toContain(`"responseFormat":{"type":"json","schema":${SCHEMA}}`);
  expect(JSON.parse(body).says).toBe(says);
});
