import { expect } from 'vitest';
import type { ScriptedToolCall } from '../../simulator/reply.ts';
import { afterAnswered } from '../../src/commands/after-commit.ts';
import { serviceActor } from '../../src/commands/audit.ts';
import { type SendMessage, sendMessage } from '../../src/commands/send-message.ts';
import { parseCallId, parseId } from '../../src/domain/ids.ts';
import type { ToolPart } from '../../src/domain/transcript/message.ts';
import type { CallAnswer, RequiredAction } from '../../src/domain/transcript/required-action.ts';
import { type AnsweredCall, answerCall } from '../../src/store/changes/call-answers.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { readRequiredActions } from '../../src/store/transcript/open-calls.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';

const anything = { type: 'object', additionalProperties: true } as const;

/** Tools of every kind. `ran` lists their calls, each with its key. */
export function createWaitingTools() {
  const ran: { name: string; callKey: string; input: unknown }[] = [];
  const tool = (name: string, traits: Partial<Tool> = {}): Tool => ({
    name,
    description: name,
    inputSchema: anything,
    execute: async (input, { callKey }) => {
      ran.push({ name, callKey, input });
      return `${name} did it`;
    },
    ...traits,
  });
  const tools: readonly Tool[] = [
    tool('look'),
    tool('deploy', { needsApproval: true }),
    tool('pay', { needsApproval: async (input) => Number(Object(input).amount) > 10 }),
    tool('careless', { needsApproval: () => Promise.reject(new Error('no idea')) }),
    { name: 'browser', description: 'Of the client.', inputSchema: anything },
  ];
  return { tools, ran };
}

export const call = (name: string, input: ScriptedToolCall['input'] = {}): ScriptedToolCall => ({
  // Every call has the same id here, as with some providers.
  id: 'again',
  name,
  input,
});

export async function send(
  { deps }: TestService,
  sessionId: string,
  text: string,
  more: Partial<Pick<SendMessage, 'delivery' | 'limits'>> = {},
) {
  const message = { actor: serviceActor('default'), sessionId, messageId: deps.newId() };
  return sendMessage(deps, { ...message, content: [{ type: 'text', text }], delivery: 'steer', limits: {}, ...more });
}

export async function readActions(db: Db, runId: string): Promise<readonly RequiredAction[]> {
  return (await readRequiredActions(db, [await findRun(db, 'default', runId)])).get(runId) ?? [];
}

/** Waits until the run waits without a claim or a job, and returns the actions that it waits for. */
export async function untilWaiting({ deps }: TestService, runId: string): Promise<readonly RequiredAction[]> {
  await eventually(
    async () => (await findRun(deps.db, 'default', runId)).status === 'requires_action',
    'the run waits for somebody',
  );
  const run = await deps.db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow();
  expect(run).toMatchObject({ claim_id: null, lease_owner: null, lease_expires_at: null, pending_kind: null });
  const session = deps.db.selectFrom('sessions').select('status').where('id', '=', run.session_id);
  expect(await session.executeTakeFirst()).toEqual({ status: 'requires_action' });
  return readActions(deps.db, runId);
}

/** Answers without adding the job. */
export function answerOf(db: Db, runId: string, id: string | undefined, answer: CallAnswer): Promise<AnsweredCall> {
  const place = parseCallId(id ?? '');
  if (place === null) throw new Error(`not the id of a call: ${id}`);
  return answerCall(db, { tenantId: 'default', runId, ...place }, answer);
}

export async function answer({ deps }: TestService, runId: string, id: string | undefined, given: CallAnswer) {
  const answered = await answerOf(deps.db, runId, id, given);
  await afterAnswered(deps, answered);
  return answered;
}

export async function callsOf({ deps }: TestService, sessionId: string): Promise<readonly ToolPart[]> {
  const messages = await listMessages(deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });
  return messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
}

/** The results that the newest request showed the model. */
export function shownResults({ simulator }: TestService): readonly string[] {
  const messages = simulator.requests.at(-1)?.request?.messages ?? [];
  return messages.flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
}

export const violations = ({ simulator }: TestService) => simulator.requests.flatMap((request) => request.violations);

export const keyOf = (action: RequiredAction | undefined): string => {
  const place = parseCallId(action?.id ?? '');
  expect(parseId('message', action?.messageId ?? '')).toBe(place?.messageId);
  return action?.id ?? '';
};
