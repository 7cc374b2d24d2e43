import { lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from 'ai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { type ChatService, SDK_7, settled, startChatService, textOf } from './ui-chat-fixture.ts';

const { tools, ran } = createWaitingTools();
const NAMES = ['elsewhere', 'outputs', 'notes'];
const TWO = [
  { name: 'deploy', input: { to: 'prod' } },
  { name: 'pay', input: { amount: 50 } },
];

let started: ChatService;
beforeAll(async () => {
  started = await startChatService(
    NAMES.map((name) => ({ name, tools: ['test'] })),
    tools,
  );
});
afterAll(() => started[Symbol.asyncDispose]());

async function messagesOf(id: string, sdk: string): Promise<UIMessage[]> {
  const response = await fetch(`${started.url}/api/chat/${id}/messages`, { headers: { 'x-ai-sdk-version': sdk } });
  return ((await response.json()) as { messages: UIMessage[] }).messages;
}

const partsOf = async (id: string, sdk: string): Promise<UIMessage['parts']> =>
  (await messagesOf(id, sdk)).at(-1)?.parts ?? [];

const post = (body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${started.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

test('a call that was approved elsewhere is shown as decided, so that the last decision of a page is sent', async () => {
  started.service.simulator.script('elsewhere', [{ toolCalls: TWO }, { text: 'Both are done.' }]);
  const chat = started.chat('elsewhere', { body: { agent: 'elsewhere' } });
  await chat.sendMessage({ text: 'Go' });
  await settled(chat);
  const idOf = (type: string) => String(Object(chat.lastMessage?.parts.find((part) => part.type === type)).toolCallId);
  const answer = `/v1/runs/${chat.lastMessage?.id}/tool-calls/${idOf('tool-deploy')}`;
  const answered = await fetch(`${started.url}${answer}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ decision: 'approve' }),
  });
  expect(answered.status).toBe(200);
  for (const sdk of ['6', '7']) {
    expect(await partsOf('elsewhere', sdk)).toMatchObject([
      { type: 'step-start' },
      { type: 'tool-deploy', state: 'approval-responded', approval: { approved: true } },
      { type: 'tool-pay', state: 'approval-requested' },
    ]);
  }
  const reopened = started.chat('elsewhere', {
    messages: await messagesOf('elsewhere', '7'),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await reopened.addToolApprovalResponse({ id: idOf('tool-pay'), approved: true });
  await eventually(async () => textOf(reopened.lastMessage) === 'Both are done.', 'the run goes on');
});

test('version 5 decides by an output that names the question, and by no other output', async () => {
  started.service.simulator.script('outputs', [{ toolCalls: TWO }, { text: 'One of the two.' }]);
  const message = { role: 'user', parts: [{ type: 'text', text: 'Go' }] };
  const five = { 'x-ai-sdk-version': '5' };
  const asked = await (await post({ id: 'outputs', agent: 'outputs', message }, five)).text();
  expect(asked.match(/"type":"data-approval"/g)).toHaveLength(2);
  expect(asked).not.toContain('tool-approval');
  const parts = await partsOf('outputs', '5');
  expect(parts.map(({ type }) => type)).toEqual([
    ...['step-start', 'tool-deploy', 'data-approval', 'tool-pay', 'data-approval'],
  ]);
  const questions = parts.flatMap((part) => (part.type === 'data-approval' ? [Object(part).data] : []));
  const before = ran.length;
  const decide = (outputs: readonly unknown[]) => {
    const decided = questions.map(({ toolCallId }, at) => ({
      ...{ type: 'tool-any', toolCallId, state: 'output-available', output: outputs[at] },
    }));
    return post({ id: 'outputs', messages: [message, { role: 'assistant', parts: decided }] }, five);
  };
  // Neither an answer to an earlier question nor a page's own output is a decision.
  const [deploy, pay] = questions;
  const ignored = await decide([{ approvalId: `${deploy.approvalId}.1`, approved: true }, 'yes']);
  expect(ignored.status).toBe(200);
  await ignored.body?.cancel();
  expect((await partsOf('outputs', '5')).filter(({ type }) => type === 'data-approval')).toHaveLength(2);
  const rest = await decide([
    { approvalId: deploy.approvalId, approved: true },
    { approvalId: pay.approvalId, approved: false, reason: 'Too much.' },
  ]);
  const told = await rest.text();
  expect(told).toContain('"delta":"One of the two."');
  expect(told.match(/"type":"tool-output-error"/g)).toHaveLength(1);
  expect(ran.slice(before).map(({ name }) => name)).toEqual(['deploy']);
});

test('takes a message with what the page’s version notes of a provider, and refuses a version that there is not', async () => {
  started.service.simulator.script('notes', [{ text: 'A picture.' }]);
  const noted = { providerMetadata: { openai: { id: 'x' } } };
  const parts = [
    { type: 'text', text: 'What is this?', ...noted },
    {
      ...{ type: 'file', mediaType: 'image/png', url: `data:image/png;base64,${PNG_BASE64}`, ...noted },
      providerReference: { openai: 'file-1' },
    },
  ];
  const body = { id: 'notes', agent: 'notes', message: { role: 'user', parts } };
  expect((await post(body, { 'x-ai-sdk-version': '4' })).status).toBe(400);
  const answer = await post(body, SDK_7);
  expect(await answer.text()).toContain('"delta":"A picture."');
});
