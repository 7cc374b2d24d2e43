import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { defineAgent } from '../../src/library/baton.ts';

describe('defineAgent', () => {
  it('gives each tool the input of its own schema', () => {
    defineAgent({
      name: 'clerk',
      model: 'openai/gpt-5.4',
      tools: {
        refund: {
          description: 'Pays back.',
          inputSchema: z.object({ cents: z.number(), note: z.string().default('') }),
          needsApproval: (input) => input.cents > 100,
          execute: async (input) => {
            expectTypeOf(input).toEqualTypeOf<{ cents: number; note: string }>();
            return input.cents;
          },
        },
        look: {
          description: 'Looks.',
          inputSchema: { type: 'object' },
          execute: (input) => {
            expectTypeOf(input).toBeUnknown();
          },
        },
      },
    });
  });
});
