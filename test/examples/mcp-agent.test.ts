import path from 'node:path';
import { expect, it } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { startChatService } from '../facades/ui-chat-fixture.ts';
import { loadAgents } from '../support/load-agents.ts';

const FOLDER = path.join(import.meta.dirname, '../../examples/mcp/agents');

it('the MCP agent starts its server over stdio, is offered its tools and uses them', async () => {
  const agent = loadAgents(FOLDER).get('toolbox');
  await using started = await startChatService([{ ...agent, model: 'simulated/toolbox' }]);
  const { simulator } = started.service;
  simulator.script('toolbox', [
    { toolCalls: [{ name: 'everything__get-sum', input: { a: 19, b: 23 } }] },
    { text: 'It is 42.' },
  ]);
  const client = createClient({ baseUrl: started.url });
  const session = await client.sessions.create({ agent: 'toolbox' });
  const { runId } = await client.send(session.id, 'What is 19 and 23?');
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed', steps: 2 });
  const { messages } = await client.messages(session.id);
  expect(messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'tool'))).toMatchObject([
    { state: 'completed', output: { value: 'The sum of 19 and 23 is 42.' } },
  ]);
  const offered = simulator.requests[0]?.request?.tools.map(({ name }) => name);
  expect(offered).toEqual(expect.arrayContaining(['everything__echo', 'everything__get-sum']));
  expect(simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
});
