import { z } from '@hono/zod-openapi';
import { schemaBy } from '../domain/object-schema.ts';
import { OUTPUT_MODES, OUTPUT_NAME } from '../domain/run/output-format.ts';
import { readOutputSchema } from '../domain/run/output-schema.ts';
import { MAX_OUTPUT_SCHEMA_BYTES, MAX_OUTPUT_SCHEMA_LEVELS } from '../domain/tunables.ts';

// The domain made its schema before Hono's zod added `openapi`, so this one is made again.
/** The result that a run is asked for. */
export const outputFormatBody = z
  .strictObject({
    schema: z
      .custom<Readonly<Record<string, unknown>>>()
      .transform(schemaBy(readOutputSchema))
      .openapi({
        type: 'object',
        description: `A JSON Schema of an object, whose root may refer to a definition: at most ${MAX_OUTPUT_SCHEMA_BYTES} bytes and ${MAX_OUTPUT_SCHEMA_LEVELS} levels.`,
      }),
    mode: z.enum(OUTPUT_MODES).optional().openapi({
      description:
        '`native`: the provider makes every answer fit. `tool`: the model calls a tool with the result. `last`: a step more without tools. `auto` (default): the first of them that the provider can do.',
    }),
    name: z
      .string()
      .regex(OUTPUT_NAME, 'letters, digits, - and _, at most 64')
      .optional()
      .openapi({ description: 'Name of the schema, which the provider is told.' }),
  })
  .openapi('OutputFormat', {
    example: { schema: { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] } },
  });
