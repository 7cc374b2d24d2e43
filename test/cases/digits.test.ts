import { expect, it } from 'vitest';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { startCaseFixture } from './support.ts';

const AGENT = `
name: clerk
model: simulated/clerk
tools:
  - client:
      name: look
      description: Looks.
      inputSchema: { type: object }
`;
const ODD = '{"z":12345678901234567890,"7":1.10,"a":[1e3]}';
const OUTPUT = '{"y":98765432109876543210,"7":2.50,"b":[1e4]}';

it('a case keeps the digits and the order of keys, and is played with them', async () => {
  await using fixture = await startCaseFixture({ 'clerk.yaml': AGENT });
  const { client, simulator, baton, write } = fixture;
  simulator.script('clerk', [{ toolCalls: [{ id: 'c1', name: 'look', input: parseExactly(ODD) }] }, { text: 'Seen.' }]);
  const { id } = await client.sessions.create({ agent: 'clerk' });
  const { runId } = await client.send(id, 'Look');
  const [action] = (await client.runs.wait(runId)).requiredActions;
  expect(await baton('answer', runId, action?.id ?? '', '--output', OUTPUT)).toMatchObject({ code: 0 });
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed' });
  const { out } = await baton('record', id);
  const written = JSON.stringify(parseExactly(out));
  expect(written).toContain(`"input":${ODD}`);
  expect(written).toContain(`"value":${OUTPUT}`);
  const played = await fixture.test(await write('digits.json', out));
  expect(played.out).toContain('1 case passed');
});
