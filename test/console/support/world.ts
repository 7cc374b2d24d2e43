import type { Reply, Script } from '../../../simulator/reply.ts';
import type { SimulatedRequest } from '../../../simulator/request.ts';
import type { Simulator } from '../../../simulator/server.ts';
import type { Agent } from '../../../src/agents/agent.ts';
import type { BatonClient } from '../../../src/client/client.ts';
import type { Tool } from '../../../src/tools/tool.ts';

const anything = { type: 'object', additionalProperties: true } as const;

const tool = (name: string, description: string, output: string, traits: Partial<Tool> = {}): Tool => ({
  name,
  description,
  inputSchema: anything,
  execute: async () => output,
  ...traits,
});

/** Tools of every kind. */
export const WORLD_TOOLS: readonly Tool[] = [
  tool(
    'lookup_order',
    'Reads an order.',
    '{"order":"A-1042","weightKg":31.5,"shipping":"18.90 EUR","rule":"by weight"}',
  ),
  tool('search_docs', 'Searches the manual.', 'shipping.md:14: Orders above 30 kg are charged by weight.'),
  tool('refund', 'Refunds money.', 'refunded', { needsApproval: true }),
  { name: 'open_page', description: 'Opens a page for the user.', inputSchema: anything },
];

/** Each has a model of its own name in the simulator. */
export const WORLD_AGENTS: readonly Partial<Agent>[] = [
  { name: 'support', description: 'Answers customers about their orders.', tools: ['test'] },
  { name: 'analyst', description: 'Reads numbers and writes reports.', tools: ['test'] },
  { name: 'nightly', description: 'Tidies up at night.' },
];

const SHIPPING = `Shipping was charged **by weight**: order A-1042 weighs 31.5 kg, and orders above 30 kg are not free.

| rule | order | charge |
|---|---|---|
| by weight, above 30 kg | 31.5 kg | 18.90 EUR |

The rule stands in \`shipping.md\`, line 14.`;

/** The answers of the simulated models, chosen by the last words of the user. */
const WORDS: readonly Readonly<{ when: RegExp; replies: readonly Reply[] }>[] = [
  {
    when: /refund/i,
    replies: [
      {
        text: 'The order was charged twice. I ask for the refund.',
        toolCalls: [
          { name: 'refund', input: { order: 'A-1042', amount: 18.9, currency: 'EUR', reason: 'charged twice' } },
        ],
      },
      { text: 'The refund of 18.90 EUR is on its way.' },
    ],
  },
  {
    when: /page/i,
    replies: [
      { toolCalls: [{ name: 'open_page', input: { url: 'https://shop.example/orders/A-1042' } }] },
      { text: 'The page is open.' },
    ],
  },
  {
    when: /shipping/i,
    replies: [
      {
        reasoning: 'The order first, then the rule.',
        text: 'I look at the order and at the rule for shipping.',
        toolCalls: [
          { name: 'lookup_order', input: { order: 'A-1042' } },
          { name: 'search_docs', input: { query: 'shipping charge weight' } },
        ],
      },
      { text: SHIPPING },
    ],
  },
];

const script: Script = (request: SimulatedRequest): Reply => {
  const asked = request.messages.findLastIndex(({ role }) => role === 'user');
  const words = request.messages[asked]?.text ?? '';
  const replies = WORDS.find(({ when }) => when.test(words))?.replies ?? [];
  const steps = request.messages.slice(asked).filter(({ role }) => role === 'tool').length;
  return replies[steps] ?? { text: 'Done: nothing else is open.' };
};

/** Lets all models of the world answer. */
export function scriptWorld(simulator: Simulator): void {
  for (const { name = '' } of WORLD_AGENTS) simulator.script(name, script);
}

type World = Readonly<{ client: BatonClient; simulator: Simulator }>;

/** A session with one message. @returns its id and that of its run */
export async function beginSession(client: BatonClient, agent: string, title: string, text: string) {
  const { id } = await client.sessions.create({ agent, title, metadata: { customer: 'ACME' } });
  const { runId } = await client.send(id, text);
  return { id, runId };
}

/** Sessions in every state that a list shows. The last one begun is shown first. */
export async function fillWorld({ client, simulator }: World): Promise<void> {
  scriptWorld(simulator);
  const refused = (status: number, message: string, type: string) => ({ status, body: { error: { message, type } } });
  const rest = async (runId: string): Promise<void> => void (await client.runs.wait(runId));
  for (const [n, fault] of [
    refused(401, 'Incorrect API key provided: sk-live-****9Qz2.', 'invalid_request_error'),
    refused(400, 'The deployment takes no conversations of this kind.', 'invalid_request_error'),
    refused(401, 'Incorrect API key provided: sk-live-****9Qz2.', 'invalid_request_error'),
  ].entries()) {
    simulator.fault('nightly', fault);
    await rest((await beginSession(client, 'nightly', `Tidy up, night ${n + 1}`, 'Tidy up.')).runId);
  }
  for (const [agent, title, text] of [
    ['analyst', 'Weekly numbers', 'Sum up the week.'],
    ['support', 'Why was shipping charged?', 'A customer paid shipping although the order was above the limit. Why?'],
    ['support', 'Show the order to the customer', 'Open the page of the order, please.'],
    ['support', 'Charged twice', 'The customer was charged twice. Please refund the shipping of A-1042.'],
  ] as const) {
    await rest((await beginSession(client, agent, title, text)).runId);
  }
}
