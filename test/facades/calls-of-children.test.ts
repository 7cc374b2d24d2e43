import {
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import { expect, test } from 'vitest';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { settled, startChatService, textOf } from './ui-chat-fixture.ts';

const { tools, ran } = createWaitingTools();

/** A boss whose operator does what needs a person or a client. */
async function startOffice(calls: readonly Readonly<{ name: string; input: object }>[]) {
  const agents = [
    { name: 'boss', tools: [{ agent: 'operator' }, 'test'] },
    { name: 'operator', tools: ['test'] },
  ];
  const started = await startChatService(agents, tools);
  const { simulator } = started.service;
  simulator.script('operator', [{ toolCalls: calls.map((call) => ({ ...call })) }, { text: 'Deployed.' }]);
  return started;
}

const partOf = (message: UIMessage | undefined, type: string) =>
  (message?.parts.find((part) => part.type === type) ?? {}) as Record<string, unknown>;

const delegating = { toolCalls: [{ name: 'operator', input: { task: 'Deploy it' } }] };

test('asks for approval of a call of a child, and is answered in the chat', async () => {
  await using started = await startOffice([{ name: 'deploy', input: { to: 'prod' } }]);
  started.service.simulator.script('boss', [delegating, { text: 'It is out.' }]);
  const chat = started.chat('children', {
    body: { agent: 'boss' },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: 'Go' });
  await settled(chat);
  expect(chat.error).toBeUndefined();
  const asked = partOf(chat.lastMessage, 'tool-deploy');
  expect(asked).toMatchObject({ state: 'approval-requested', input: { to: 'prod' } });
  const transcript: unknown = await (await fetch(`${started.url}/api/chat/children/messages`)).json();
  expect(JSON.stringify(transcript)).toContain('"type":"tool-deploy"');
  const reopened = started.chat('children');
  await reopened.resumeStream();
  expect(reopened.error).toBeUndefined();
  expect(partOf(reopened.lastMessage, 'tool-deploy')).toMatchObject({ state: 'approval-requested' });
  await chat.addToolApprovalResponse({ id: String(Object(asked['approval']).id), approved: true });
  await eventually(async () => textOf(chat.lastMessage) === 'It is out.', 'the run goes on');
  await settled(chat);
  expect(chat.error).toBeUndefined();
  expect(partOf(chat.lastMessage, 'tool-operator')).toMatchObject({ state: 'output-available' });
  expect(ran.map(({ name, input }) => [name, input])).toEqual([['deploy', { to: 'prod' }]]);
  expect(chat.messages).toHaveLength(2);
  const audited = await started.service.deps.db.selectFrom('audit_log').select('action').execute();
  expect(audited.filter(({ action }) => action === 'tool-call:answer')).toHaveLength(1);
});

test('runs a tool of the client that a child calls', async () => {
  await using started = await startOffice([{ name: 'browser', input: { url: 'x' } }]);
  started.service.simulator.script('boss', [delegating, { text: 'I see it.' }]);
  const chat = started.chat('client', {
    body: { agent: 'boss' },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall }) {
      if (toolCall.toolName !== 'browser') return;
      void chat.addToolOutput({ tool: 'browser', toolCallId: toolCall.toolCallId, output: { title: 'A page' } });
    },
  });
  await chat.sendMessage({ text: 'Open it' });
  await eventually(async () => textOf(chat.lastMessage) === 'I see it.', 'the run goes on');
  await settled(chat);
  expect(chat.error).toBeUndefined();
});

test('asks for what a child asks while the page is away, once the own calls are answered', async () => {
  await using started = await startOffice([{ name: 'deploy', input: {} }]);
  const { simulator, deps } = started.service;
  const begun = Promise.withResolvers<void>();
  simulator.script('operator', async ({ messages }) => {
    await begun.promise;
    return messages.some(({ toolResults }) => toolResults.length > 0)
      ? { text: 'Deployed.' }
      : { toolCalls: [{ name: 'deploy', input: {} }] };
  });
  const pay = { name: 'pay', input: { amount: 50 } };
  simulator.script('boss', [{ toolCalls: [...delegating.toolCalls, pay] }, { text: 'All done.' }]);
  const chat = started.chat('both', {
    body: { agent: 'boss' },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: 'Go' });
  await settled(chat);
  expect(partOf(chat.lastMessage, 'tool-pay')).toMatchObject({ state: 'approval-requested' });
  expect(partOf(chat.lastMessage, 'tool-deploy')).toEqual({});
  begun.resolve();
  const asks = () => deps.db.selectFrom('events').select('seq').where('type', '=', 'child:requires-action').execute();
  await eventually(async () => (await asks()).length > 0, 'the child asks');
  const answer = (type: string) => {
    const id = String(Object(partOf(chat.lastMessage, type)['approval']).id);
    return chat.addToolApprovalResponse({ id, approved: true });
  };
  await answer('tool-pay');
  // The page sends by itself only what is complete: the call of the child's still runs.
  await chat.sendMessage();
  await eventually(
    async () => partOf(chat.lastMessage, 'tool-deploy')['state'] === 'approval-requested',
    'the page is asked for the call of the child',
  );
  await settled(chat);
  await answer('tool-deploy');
  await eventually(async () => textOf(chat.lastMessage) === 'All done.', 'the run goes on');
  await settled(chat);
  expect(chat.error).toBeUndefined();
});

test('lets a completion wait until a call of a child was answered elsewhere', async () => {
  await using started = await startOffice([{ name: 'deploy', input: {} }]);
  started.service.simulator.script('boss', [delegating, { text: 'It is out.' }]);
  const { body } = await fetch(`${started.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'boss', stream: true, messages: [{ role: 'user', content: 'Go' }] }),
  });
  type Inbox = { calls: { id: string; runId: string }[] };
  const answerElsewhere = async () => {
    const { calls } = (await (await fetch(`${started.url}/v1/inbox`)).json()) as Inbox;
    return fetch(`${started.url}/v1/runs/${calls[0]?.runId}/tool-calls/${calls[0]?.id}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ decision: 'approve' }),
    });
  };
  const asked = /"status":"requires_action".*"name":"deploy".*"agent":"operator"/g;
  let stream = '';
  let answer: Response | null = null;
  for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    stream += text;
    // The stream tells only of calls that still wait, so the answer comes after it.
    if (answer === null && stream.match(asked) !== null) answer = await answerElsewhere();
  }
  expect(answer?.status).toBe(200);
  expect(stream.match(asked)).toHaveLength(1);
  expect(stream).toContain('"content":"It is out."');
});
