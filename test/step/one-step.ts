import { createClaimKeeper, type HeldClaim } from '../../src/claims/claim-keeper.ts';
import { createViewCache } from '../../src/claims/view-cache.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import type { StepDeps } from '../../src/step/deps.ts';
import { runStep } from '../../src/step/run-step.ts';
import type { StepWriter } from '../../src/step/step-writer.ts';
import { createTextAppender } from '../../src/step/text-appender.ts';
import type { Db } from '../../src/store/db/database.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { finishStep, writeResponse } from '../../src/store/work/step-writes.ts';
import type { ServerTool, Tool } from '../../src/tools/tool.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

export const startService = (...tools: readonly Tool[]) => startTestService({ backend: 'postgres', tools });

export async function accept({ deps }: TestService, sessionId: string): Promise<JobPayload> {
  const content = [{ type: 'text', text: 'Go' }] as const;
  const ids = { tenantId: 'default', sessionId, messageId: deps.newId(), runId: deps.newId() };
  const { job } = await acceptMessage(deps.db, { ...ids, content });
  if (job === null) throw new Error('a run was active');
  return job;
}

/** One step as a worker takes it, which is told of no cancel: its notice is late. */
export async function takeStep({ deps }: TestService, job: JobPayload, changes: (own: StepDeps) => Partial<StepDeps>) {
  await using claims = await createClaimKeeper({ ...deps, heartbeatIntervalMs: 60_000 });
  const modelTimeouts = { firstChunkMs: 60_000, idleChunkMs: 60_000, wholeStepMs: 60_000 };
  const writes = writeAlone(deps.db);
  const rest = { claims, views: createViewCache(), appendText: createTextAppender(deps.db), writes, modelTimeouts };
  const own: StepDeps = { ...deps, ...rest, random: Math.random };
  const changed = { ...own, ...changes(own) };
  const step = { ...changed, writes: writeAlone(changed.db) };
  await runStep(step, job, new AbortController().signal);
}

/** Each write waits for the locks of its session, however long, in the order in which the writes come. */
const writeAlone = (db: Db): StepWriter => ({
  respond: (...write) => writeResponse(db, ...write),
  finish: (...write) => finishStep(db, ...write),
});

export const tool = (name: string, execute: ServerTool['execute'], traits: Partial<ServerTool> = {}): Tool => ({
  name,
  description: name,
  inputSchema: { type: 'object' },
  execute,
  ...traits,
});

/** Of a run that was cancelled. */
export async function stillRan({ deps: { db } }: TestService, session: string): Promise<unknown> {
  const events = await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 });
  return events.find(({ type }) => type === 'run:cancelled')?.data['stillRan'];
}

/** The states of the session's calls. */
export async function statesOf({ deps: { db } }: TestService, session: string): Promise<unknown[]> {
  const messages = await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 });
  return messages.flatMap(({ parts }) => parts).flatMap((part) => (part.type === 'tool' ? [part.state] : []));
}

/** Does something when a statement that has the text is done and its answer is not read yet. */
export function hearing(db: Db, text: string, done: () => unknown): Db {
  const heard: unknown[] = [];
  return db.withPlugin({
    transformQuery: ({ node, queryId }) => {
      if (node.kind === 'RawNode' && node.sqlFragments.some((each) => each.includes(text))) heard.push(queryId);
      return node;
    },
    transformResult: async ({ result, queryId }) => {
      if (heard.includes(queryId)) await done();
      return result;
    },
  });
}

/**
 * The connection breaks when the first statement that has the text is committed: something is done before the reply is
 * missed.
 */
export function losingReply(db: Db, text: string, meanwhile: () => Promise<void> = async () => undefined): Db {
  let isLost = false;
  return hearing(db, text, async () => {
    if (isLost) return;
    isLost = true;
    await meanwhile();
    throw new Error('Connection terminated unexpectedly');
  });
}

/** The connection is broken when the first statement that has the text is sent. */
export function breakingBefore(db: Db, text: string): Db {
  let isBroken = false;
  return db.withPlugin({
    transformQuery: ({ node }) => {
      const isMeant = node.kind === 'RawNode' && node.sqlFragments.some((each) => each.includes(text));
      if (!isMeant || isBroken) return node;
      isBroken = true;
      throw new Error('Connection terminated unexpectedly');
    },
    transformResult: async ({ result }) => result,
  });
}

/** The step's deps with the claim that it holds, once it does. */
export function withHeld({ claims }: StepDeps, hooks: { held?: HeldClaim }): Pick<StepDeps, 'claims'> {
  const hold: typeof claims.hold = (...claim) => {
    hooks.held = claims.hold(...claim);
    return hooks.held;
  };
  return { claims: { ...claims, hold } };
}
