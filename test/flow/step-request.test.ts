import * as fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import type { stepRequestBody } from '../../src/api/step-request.ts';
import { createApp } from '../../src/app/app.ts';
import { formatId } from '../../src/domain/ids.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { forkSession } from '../../src/store/changes/fork.ts';
import { switchAgent } from '../../src/store/changes/switch-agent.ts';
import { agentWith, readTool, requestsOf } from '../compaction/compaction-support.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { startTestService, type TestService } from '../support/service.ts';

type Body = (typeof stepRequestBody)['_output'];

async function requestOf({ deps }: TestService, runId: string, step: number, query = ''): Promise<Body> {
  const app = createApp({ ...deps, readiness: deps.health.readiness, metrics: createMetrics() });
  const response = await app.request(
    `/v1/runs/${formatId('run', runId)}/steps/${step}/request${query}`,
    { headers: { host: '127.0.0.1' } },
    { openWithoutKeys: true, allowedHosts: [] },
  );
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as Body;
}

/** All pages of a request as one. */
async function wholeRequestOf(service: TestService, runId: string, step: number): Promise<Body> {
  const first = await requestOf(service, runId, step, '?limit=7');
  const messages = [...first.messages];
  for (let next = first.next; next !== null; ) {
    const page = await requestOf(service, runId, step, `?limit=7&after=${next}`);
    messages.push(...page.messages);
    next = page.next;
  }
  return { ...first, messages };
}

const SMALL = { maxContextTokens: 16_000 };

type Act =
  | Readonly<{ kind: 'send'; reads: number; tokens: number }>
  | Readonly<{ kind: 'prune' | 'compaction' | 'switch' | 'fork' }>;

const acts: fc.Arbitrary<Act[]> = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('send' as const),
        reads: fc.integer({ min: 0, max: 4 }),
        tokens: fc.integer({ min: 100, max: 1_800 }),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constantFrom('prune' as const, 'compaction' as const, 'switch' as const, 'fork' as const),
      }),
    },
  ),
  { minLength: 6, maxLength: 10 },
);

/** Plays on one session after another: a fork is gone on with. */
async function play(service: TestService, list: readonly Act[]): Promise<void> {
  const { db, newId } = service.deps;
  let session = await service.createSession(agentWith(SMALL, { instructions: 'Be brief.' }));
  const script = { left: 0, tokens: 0 };
  const reply = () => {
    script.left -= 1;
    if (script.left < 0) return { text: 'Done.', reasoning: 'I think.' };
    return { toolCalls: [{ name: 'read', input: { path: `file-${script.left}.ts`, tokens: script.tokens } }] };
  };
  service.simulator.script('test', reply);
  service.simulator.script('other', reply);
  const say = async (text: string) => service.ended((await service.send(session, text)).runId);
  await say('Begin.');
  let switches = 0;
  for (const act of list) {
    if (act.kind === 'send') {
      Object.assign(script, { left: act.reads, tokens: act.tokens });
      await say(`Read ${act.reads} files.`);
    } else if (act.kind === 'fork') {
      const forkId = newId();
      const parent = session;
      await db
        .transaction()
        .execute((tx) => forkSession(tx, { tenantId: 'default', sessionId: parent, forkId, atMessageId: null }));
      session = forkId;
      await say('Go on.');
    } else if (act.kind === 'switch') {
      switches += 1;
      const model = switches % 2 === 1 ? 'simulated/other' : 'simulated/test';
      const fields = agentWith(SMALL, { instructions: `Be agent ${switches}.` });
      const snapshot = agentSchema.parse({ name: `agent-${switches}`, model, ...fields });
      const kept = { name: snapshot.name, version: agentVersion(snapshot), snapshot, overrides: {} };
      const sessionId = session;
      await db.transaction().execute((tx) => switchAgent(tx, { tenantId: 'default', sessionId }, () => kept));
      await say('Who are you?');
    } else {
      await service.ended((await service.maintain(session, act.kind)).runId);
      await say('And now?');
    }
  }
}

const withoutBlanks = (text: string): string => text.replaceAll(/\s+/g, '');

describe('the request of a step', () => {
  it('is the one that the model was shown, whatever was pruned, compacted, forked and switched since', async () => {
    await fc.assert(
      fc.asyncProperty(acts, async (list) => {
        await using service = await startTestService({ backend: 'postgres', tools: [readTool] });
        await service.startWorker();
        await play(service, list);
        const { rows: steps } = await sql<{ runId: string; step: number }>`
          select run_id as "runId", step_no as step from messages
          where role = 'assistant' and run_id is not null and not superseded order by created_at`.execute(
          service.deps.db,
        );
        const sent = requestsOf(service).steps.filter(({ refusal }) => refusal === undefined);
        expect(sent).toHaveLength(steps.length);
        for (const [index, { runId, step }] of steps.entries()) {
          const body = await wholeRequestOf(service, runId, step);
          expect(body, JSON.stringify({ step, runId })).toMatchObject({ verified: true, toolsVerified: true });
          const { request } = sent[index] ?? {};
          const texts = (role: string, of: readonly Readonly<{ role: string; text: string }>[]) =>
            withoutBlanks(of.flatMap((each) => (each.role === role ? [each.text] : [])).join(''));
          const shown = body.messages.map(({ role, content }) => ({
            role,
            text: content.flatMap((part) => (part.type === 'text' ? [String(part['text'])] : [])).join(''),
          }));
          expect(texts('user', shown)).toBe(texts('user', request?.messages ?? []));
          expect(body.messages[0]).toMatchObject({ role: 'system', content: [{ text: request?.system }] });
          expect(body.tools.map(({ name }) => name)).toEqual(request?.tools.map(({ name }) => name));
        }
      }),
      { numRuns: propertyRuns(0.04) },
    );
  }, 180_000);

  it('marks what a prune had cleared by then, and not what it cleared later', async () => {
    await using service = await startTestService({ backend: 'postgres', tools: [readTool] });
    await service.startWorker();
    await play(service, [{ kind: 'send', reads: 4, tokens: 1_800 }, { kind: 'prune' }]);
    const { rows } = await sql<{ runId: string; step: number; finish: string }>`
      select run_id as "runId", step_no as step, finish_reason as finish from messages
      where role = 'assistant' and run_id is not null order by created_at`.execute(service.deps.db);
    const [before, after] = rows.slice(-2);
    if (before === undefined || after === undefined) throw new Error('no steps');
    const hiddenIn = async ({ runId, step }: typeof before) =>
      (await wholeRequestOf(service, runId, step)).messages.flatMap(({ hidden }) => hidden);
    expect(await hiddenIn(before)).toEqual([]);
    const hidden = await hiddenIn(after);
    expect(hidden.length).toBeGreaterThan(0);
    expect(hidden[0]).toMatchObject({
      kind: 'pruned',
      toolName: 'read',
      callId: expect.stringMatching(/^call_/),
      tokens: expect.any(Number),
    });
  });

  it('is there without a proof while the answer is open, and nowhere for a step that never began', async () => {
    await using service = await startTestService({ backend: 'postgres', tools: [readTool] });
    const session = await service.createSession(agentWith(SMALL));
    service.simulator.script('test', [{ text: 'Done.' }]);
    const { runId } = await service.send(session, 'Hello');
    await service.startWorker();
    await service.ended(runId);
    await sql`update messages set request = null where run_id = ${runId}`.execute(service.deps.db);
    expect(await requestOf(service, runId, 1)).toMatchObject({ verified: null, sha256: null });
    const app = createApp({ ...service.deps, readiness: service.deps.health.readiness, metrics: createMetrics() });
    const missing = await app.request(
      `/v1/runs/${formatId('run', runId)}/steps/2/request`,
      { headers: { host: '127.0.0.1' } },
      { openWithoutKeys: true, allowedHosts: [] },
    );
    expect(missing.status).toBe(404);
  });
});
