import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { BatonClient } from '../../src/client/client.ts';
import { type Baton, createBaton, defineAgent } from '../../src/library/baton.ts';

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

describe('createBaton', () => {
  it('knows the names of its agents', () => {
    const open = () =>
      createBaton({
        agents: [defineAgent({ name: 'clerk', model: 'openai/gpt-5.4' }), { name: 'lead', model: 'openai/gpt-5.4' }],
      });
    expectTypeOf(open).returns.resolves.toEqualTypeOf<Baton<'clerk' | 'lead'>>();
    const use = async ({ client }: Baton<'clerk' | 'lead'>): Promise<BatonClient> => {
      await client.sessions.create({ agent: 'lead' });
      // @ts-expect-error there is no such agent
      await client.sessions.create({ agent: 'nope' });
      // @ts-expect-error there is no such agent
      await client.schedules.create({ agent: 'nope', content: 'Look', cron: '0 9 * * *' });
      return client;
    };
    expectTypeOf(use).toBeFunction();
    expectTypeOf(() => createBaton({ agentsDir: 'agents' })).returns.resolves.toEqualTypeOf<Baton>();
  });
});
