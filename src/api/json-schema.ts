import { z } from 'zod';

export type JsonSchema = Record<string, unknown>;

/**
 * A schema of the domain as JSON Schema 2020-12, which OpenAPI 3.1 takes as is. zod writes "any JSON" as a recursive
 * definition; here it is `{}`.
 * @param extras properties to add to each object whose own properties satisfy `isOf`
 */
export function toJsonSchema(
  schema: z.ZodType,
  ...extras: readonly Readonly<{ isOf: (properties: JsonSchema) => boolean; properties: JsonSchema }>[]
): JsonSchema {
  const {
    $schema: _dialect,
    $defs: _anyJson,
    ...rest
  } = z.toJSONSchema(schema, {
    override: ({ jsonSchema: { properties } }) => {
      if (properties === undefined) return;
      for (const extra of extras) if (extra.isOf(properties)) Object.assign(properties, extra.properties);
    },
  });
  const inlined = JSON.stringify(rest, (_key, value: unknown) => (refersToAnyJson(value) ? {} : value));
  return z.record(z.string(), z.unknown()).parse(JSON.parse(inlined));
}

const refersToAnyJson = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && '$ref' in value && String(value.$ref).startsWith('#/$defs/');
