import { expect } from 'vitest';
import type { ScriptedToolCall } from '../../simulator/reply.ts';
import { parseCallId, parseId } from '../../src/domain/ids.ts';
import type { ToolPart } from '../../src/domain/transcript/message.ts';
import type { CallAnswer, RequiredAction } from '../../src/domain/transcript/required-action.ts';
import { type AnsweredCall, answerCall } from '../../src/store/changes/call-answers.ts';
import type { NewInboxMessage } from '../../src/store/changes/inbox.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { readRequiredActions } from '../../src/store/transcript/open-calls.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

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

/** Does the API's work for a message: accepts it, tells the worker of a cancel, adds the job. */
export async function send(
  { deps }: TestService,
  sessionId: string,
  text: string,
  more: Pick<NewInboxMessage, 'delivery' | 'limits'> = {},
) {
  const ids = { tenantId: 'default', sessionId, messageId: deps.newId(), runId: deps.newId() };
  const accepted = await acceptMessage(deps.db, { ...ids, content: [{ type: 'text', text }], ...more });
  if (accepted.cancelled?.notify === true) deps.bus.requestCancel(accepted.cancelled.runId);
  if (accepted.job !== null) await deps.jobs.add([accepted.job]);
  return accepted;
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

/** Does the API's work for an answer: stores it and adds the job. */
export async function answer(service: TestService, runId: string, id: string | undefined, given: CallAnswer) {
  const answered = await answerOf(service.deps.db, runId, id, given);
  if (answered.job !== null) await service.deps.jobs.add([answered.job]);
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
