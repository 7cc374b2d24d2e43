import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CaseFixture, startCaseFixture } from './support.ts';

const agent = (instructions = 'You refund orders of up to 100 EUR.', module = 'refund'): string => `
name: clerk
model: simulated/clerk
instructions: ${instructions}
tools:
  - module: ./${module}.ts
approvals: [refund]
`;

const toolModule = (field = 'order', paid = 40): string => `
export default [
  {
    name: 'find_order',
    description: 'Finds an order.',
    inputSchema: { type: 'object', properties: { ${field}: { type: 'string' } } },
    execute: async () => 'The order was paid with ${paid} EUR.',
  },
  {
    name: 'refund',
    description: 'Refunds an order.',
    inputSchema: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] },
    execute: async () => ({ refunded: true }),
  },
];
`;

const REFUND = { order: '7', password: 'open sesame', headers: { Cookie: 'plain' }, tokens: 12, path: '/orders/7' };

const stack = new AsyncDisposableStack();
let fixture: CaseFixture;
let file: string;

beforeAll(async () => {
  fixture = stack.use(await startCaseFixture({ 'clerk.yaml': agent(), 'refund.ts': toolModule() }));
  const { client, simulator, baton, write } = fixture;
  simulator.script('clerk', [
    { reasoning: 'First look.', text: 'I look.', toolCalls: [{ id: 'c1', name: 'find_order', input: { order: '7' } }] },
    // In JSON, other characters follow the word than in the text.
    { text: 'Its key:\n\tprivate1 pays.', toolCalls: [{ id: 'c2', name: 'refund', input: REFUND }] },
    { text: 'Refunded.' },
    { text: 'You are welcome.' },
  ]);
  const { id } = await client.sessions.create({ agent: 'clerk', title: 'A refund' });
  const { runId } = await client.send(id, 'Refund order 7, my key is sk-1234567890abcdef');
  const asked = await client.runs.wait(runId);
  await client.runs.answer(runId, asked.requiredActions[0]?.id ?? '', { decision: 'approve' });
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed' });
  await client.ask(id, 'Thank you');
  const recorded = await baton('record', id);
  expect(recorded).toMatchObject({ code: 0, err: '' });
  expect(recorded.out).toContain('my key is');
  for (const secret of ['sk-1234567890abcdef', 'open sesame', 'plain']) expect(recorded.out).not.toContain(secret);
  for (const kept of ['"tokens":12', '"path":"/orders/7"']) expect(recorded.out.replaceAll(' ', '')).toContain(kept);
  file = await write('refund.json', recorded.out);
});
afterAll(() => stack.disposeAsync());

/** `baton test` with other files in the folder of the agents. A module is loaded once, so another one has another name. */
const changed = async (files: Readonly<Record<string, string>>, ...args: readonly string[]) => {
  for (const [name, content] of Object.entries(files)) await fixture.write(name, content);
  const result = await fixture.test(file, ...args);
  await fixture.write('clerk.yaml', agent());
  return result;
};

describe('a recorded session', () => {
  it('passes without its provider, and holds no key', async () => {
    const asked = fixture.simulator.requests.length;
    const { code, out, err } = await fixture.test(file);
    expect({ err, out }).toEqual({
      err: '',
      out: expect.stringMatching(/^✓ .*refund\.json: A refund, 4 steps, 2 calls in .* s\n1 case passed\n$/),
    });
    expect(code).toBe(0);
    expect(fixture.simulator.requests).toHaveLength(asked);
  });

  it('fails by other instructions', async () => {
    const { code, out } = await changed({ 'clerk.yaml': agent('You refund orders of up to 50 EUR.') });
    expect(out).toContain('✗');
    expect(out).toContain('1 difference,');
    expect(out).toContain(
      'step 1, instructions\n    recorded  You refund orders of up to 100 EUR.\n    now       You refund orders of up to 50 EUR.',
    );
    expect(code).toBe(1);
  });

  it('fails by another schema of a tool, by its name', async () => {
    const { code, out } = await changed({
      'clerk.yaml': agent(undefined, 'renamed'),
      'renamed.ts': toolModule('orderNo'),
    });
    expect(out).toContain('1 difference,');
    expect(out).toContain('step 1, tool find_order, schema');
    expect(out).toMatch(/recorded {2}.*"order".*\n.*now {7}.*"orderNo"/);
    expect(code).toBe(1);
  });

  it('fails by another result of a tool that runs, by its name', async () => {
    expect((await fixture.test(file, '--live-tools')).out).toContain('1 case passed');
    const { code, out } = await changed(
      { 'clerk.yaml': agent(undefined, 'dearer'), 'dearer.ts': toolModule('order', 41) },
      '--live-tools',
    );
    expect(out).toContain('1 difference,');
    expect(out).toContain(
      'step 1, result of find_order\n    recorded  The order was paid with 40 EUR.\n    now       The order was paid with 41 EUR.',
    );
    expect(code).toBe(1);
  });

  it('goes on from a step with another model, and puts its work beside the recorded', async () => {
    fixture.simulator.script('other', [
      { toolCalls: [{ id: 'o1', name: 'refund', input: { order: '7' } }] },
      { text: 'It is refunded now.' },
      { text: 'Gladly.' },
    ]);
    const { code, out, err } = await fixture.test(file, '--from', '2', '--model', 'simulated/other');
    expect(err).toBe('');
    expect(out).toMatch(/refund\.json: A refund, from step 2\n/);
    expect(out).toMatch(/model +simulated\/clerk +simulated\/other\n +steps +3 +3\n/);
    expect(out).toMatch(/input tokens +\d+ +\d+\n +output tokens +\d+ +\d+\n +cost +0\.0000 USD +0\.0000 USD\n/);
    expect(out).toMatch(
      /calls +refund 1 +refund 1\n +end +completed +completed\n +output +You are welcome\. +Gladly\.\n/,
    );
    expect(code).toBe(0);
    const asked = fixture.simulator.requests.filter(({ model }) => model === 'other');
    expect(asked).toHaveLength(3);
  });

  it('refuses one of --from and --model alone', async () => {
    expect(await fixture.baton('test', file, '--from', '2')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--from and --model go together'),
    });
  });
});
