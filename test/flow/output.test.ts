import { describe, expect, it } from 'vitest';
import type { Reply, Script } from '../../simulator/reply.ts';
import type { OutputFormat } from '../../src/domain/run/output-format.ts';
import { readRunOutput } from '../../src/store/session/run-output.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { readStepRequest } from '../../src/store/transcript/step-request.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { answer, createWaitingTools, untilWaiting } from './waiting-scenario.ts';

const backend = anyBackend();
const SCHEMA = {
  type: 'object',
  properties: { total: { type: 'number' }, currency: { type: 'string' } },
  required: ['total', 'currency'],
  additionalProperties: false,
} as const;
const VALUE = { total: 12, currency: 'EUR' };
const JSON_TEXT = JSON.stringify(VALUE);
const WRONG = '{"total":"twelve","currency":"EUR"}';

async function start(script: Script, ran: unknown[] = []) {
  const look: Tool = {
    name: 'look',
    description: 'Looks.',
    inputSchema: { type: 'object', additionalProperties: true },
    execute: async (input) => {
      ran.push(input);
      return 'twelve euros';
    },
  };
  const service = await startTestService({ backend, tools: [look] });
  service.simulator.script('test', script);
  service.simulator.script('gpt-4', script);
  await service.startWorker();
  return service;
}

async function ask(service: TestService, output: OutputFormat | undefined, agent: object = {}) {
  const sessionId = await service.createSession(agent);
  const { deps } = service;
  const ids = { tenantId: 'default', sessionId, messageId: deps.newId(), runId: deps.newId() };
  const content = [{ type: 'text', text: 'How much is it?' }] as const;
  const { job } = await acceptMessage(deps.db, { ...ids, content, output });
  await deps.jobs.add(job === null ? [] : [job]);
  const run = await service.ended(ids.runId);
  const events = await readEvents(deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });
  const told = await readRunOutput(deps.db, 'default', await findRun(deps.db, 'default', ids.runId));
  return { run, events, output: told, sessionId, runId: ids.runId };
}

const call = (name: string, input: unknown): Reply => ({ toolCalls: [{ id: `c-${name}`, name, input }] });
const requests = ({ simulator }: TestService) => simulator.requests;
const violations = (service: TestService) => requests(service).flatMap((request) => request.violations);
const bodyOf = (service: TestService, index: number): Record<string, unknown> =>
  JSON.parse(requests(service)[index]?.rawBody ?? '{}');
const toolsOf = (service: TestService, index: number) =>
  requests(service)[index]?.request?.tools.map(({ name }) => name) ?? [];

describe('a run with a schema, together with tools', () => {
  it.each(['simulated', 'simulated-chat'])(
    'by %s: the provider makes the answer fit in every step',
    async (provider) => {
      await using service = await start([call('look', {}), { text: JSON_TEXT }]);
      const { run, output, events } = await ask(
        service,
        { schema: SCHEMA, name: 'price' },
        { model: `${provider}/test` },
      );
      expect(run).toMatchObject({ status: 'completed', step_count: 2 });
      expect(output).toMatchObject({ text: JSON_TEXT, value: VALUE });
      expect(events.find(({ type }) => type === 'run:completed')?.data).toMatchObject({ output: { value: VALUE } });
      for (const index of [0, 1]) {
        const { text, response_format: format = (text as { format?: unknown } | undefined)?.format } = bodyOf(
          service,
          index,
        );
        expect(JSON.stringify(format)).toContain(JSON.stringify(SCHEMA));
        expect(JSON.stringify(format)).toContain('"price"');
        expect(JSON.stringify(format)).toContain('"strict":true');
        expect(toolsOf(service, index)).toContain('look');
        expect(toolsOf(service, index)).not.toContain('final_result');
      }
      expect(violations(service)).toEqual([]);
    },
  );

  it.each(['simulated', 'simulated-chat', 'simulated-anthropic'])(
    'by %s and a tool: the call ends the run after its siblings have run',
    async (provider) => {
      const ran: unknown[] = [];
      const both = [{ id: 'a', name: 'final_result', input: VALUE }, ...(call('look', { at: 1 }).toolCalls ?? [])];
      await using service = await start([{ toolCalls: both }, { text: 'never asked' }], ran);
      const { run, output } = await ask(service, { schema: SCHEMA, mode: 'tool' }, { model: `${provider}/test` });
      expect(run).toMatchObject({ status: 'completed', step_count: 1 });
      expect(output).toMatchObject({ text: '', value: VALUE });
      expect(ran).toEqual([{ at: 1 }]);
      expect(requests(service)).toHaveLength(1);
      expect(toolsOf(service, 0)).toContain('final_result');
      expect(violations(service)).toEqual([]);
    },
  );

  it('by an own last step: after the work, without tools to call', async () => {
    await using service = await start([call('look', {}), { text: 'It costs twelve euros.' }, { text: JSON_TEXT }]);
    const { run, output } = await ask(service, { schema: SCHEMA, mode: 'last' });
    expect(run).toMatchObject({ status: 'completed', step_count: 3 });
    expect(output).toMatchObject({ value: VALUE });
    expect(requests(service).map(({ request }) => request?.toolChoice === 'none')).toEqual([false, false, true]);
    expect(JSON.stringify(bodyOf(service, 1))).not.toContain('json_schema');
    expect(JSON.stringify(bodyOf(service, 2))).toContain('json_schema');
    expect(violations(service)).toEqual([]);
  });

  it('by words, where the provider has nothing for it', async () => {
    await using service = await start([{ text: 'Twelve.' }, { text: `\`\`\`json\n${JSON_TEXT}\n\`\`\`` }]);
    const { output } = await ask(service, { schema: SCHEMA, mode: 'last' }, { model: 'simulated-anthropic/test' });
    expect(output).toMatchObject({ value: VALUE });
    const last = requests(service)[1]?.request;
    expect(last?.messages.at(-1)?.text).toContain('[System notice, not from the user]');
    expect(last?.messages.at(-1)?.text).toContain(JSON.stringify(SCHEMA));
    expect(violations(service)).toEqual([]);
  });

  it('by the table: a model that can only call gets the tool', async () => {
    await using service = await start([call('final_result', VALUE)]);
    const { output } = await ask(service, { schema: SCHEMA }, { model: 'simulated-chat/gpt-4' });
    expect(output).toMatchObject({ value: VALUE });
  });

  it('has the schema of the message, else that of its agent', async () => {
    const other = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] } as const;
    await using service = await start(() => ({ text: '{"ok":true}' }));
    const agent = { output: { schema: other } };
    expect((await ask(service, undefined, agent)).output).toMatchObject({ value: { ok: true } });
    const refused = await ask(service, { schema: SCHEMA }, agent);
    expect(refused.run).toMatchObject({ status: 'incomplete', status_reason: 'output_invalid' });
  });
});

describe('an answer that does not fit', () => {
  it.each<[string, OutputFormat, Reply, Reply]>([
    ['native', { schema: SCHEMA }, { text: WRONG }, { text: JSON_TEXT }],
    ['a tool', { schema: SCHEMA, mode: 'tool' }, call('final_result', JSON.parse(WRONG)), call('final_result', VALUE)],
    ['a tool, by words', { schema: SCHEMA, mode: 'tool' }, { text: 'Twelve.' }, call('final_result', VALUE)],
    [
      'a tool, by an unfinished call',
      { schema: SCHEMA, mode: 'tool' },
      call('final_result', '{"tot'),
      call('final_result', VALUE),
    ],
  ])('goes back to the model with what is wrong (%s), and counts', async (_mode, format, wrong, right) => {
    await using service = await start([wrong, right]);
    const { run, output, events } = await ask(service, format);
    expect(run).toMatchObject({ status: 'completed', step_count: 2 });
    expect(output).toMatchObject({ value: VALUE });
    const invalid = events.filter(({ type }) => type === 'output:invalid');
    expect(invalid).toMatchObject([{ data: { step: 1, repairs: 1, problem: expect.any(String) } }]);
    const [first = ''] = String(invalid[0]?.data['problem']).split('\n');
    expect(JSON.stringify(requests(service)[1]?.request?.messages)).toContain(JSON.stringify(first).slice(1, -1));
    expect(violations(service)).toEqual([]);
  });

  it.each<[string, OutputFormat, Reply]>([
    ['native', { schema: SCHEMA }, { text: WRONG }],
    ['cut off', { schema: SCHEMA }, { text: '{"total":12,', finishReason: 'length' }],
    ['a tool', { schema: SCHEMA, mode: 'tool' }, call('final_result', JSON.parse(WRONG))],
    ['last', { schema: SCHEMA, mode: 'last' }, { text: WRONG }],
  ])('three times, the run ends without a result and keeps the text (%s)', async (mode, format, wrong) => {
    await using service = await start(() => wrong);
    const { run, output, events } = await ask(service, format);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'output_invalid' });
    expect(run.error).toMatchObject({ code: 'output_invalid', message: expect.any(String) });
    expect(run.step_count).toBe(mode === 'last' ? 4 : 3);
    expect(output).not.toHaveProperty('value');
    expect(output?.text).toBe(wrong.text ?? '');
    expect(events.filter(({ type }) => type === 'output:invalid').map(({ data }) => data['repairs'])).toEqual([
      1, 2, 2,
    ]);
    expect(violations(service)).toEqual([]);
  });

  it('by a schema that would take for ever to check is stopped, and the process goes on', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } } as const;
    const evil = JSON.stringify({ a: `${'a'.repeat(40)}!` });
    await using service = await start(({ index }) => ({ text: index === 0 ? evil : '{"a":"aa"}' }));
    const { run, output, events } = await ask(service, { schema });
    expect(run).toMatchObject({ status: 'completed' });
    expect(output).toMatchObject({ value: { a: 'aa' } });
    expect(events.find(({ type }) => type === 'output:invalid')?.data['problem']).toContain('could not be checked');
  });
});

describe('a result whose answer was interrupted', () => {
  it('counts after the call beside it was approved, without another answer of the model', async () => {
    const { tools } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const asked = [
      { id: 'a', name: 'final_result', input: VALUE },
      { id: 'b', name: 'deploy', input: {} },
    ];
    service.simulator.script('test', [{ toolCalls: asked }]);
    await service.startWorker();
    const sessionId = await service.createSession({ output: { schema: SCHEMA, mode: 'tool' } });
    const { runId } = await service.send(sessionId, 'Deploy it, and say what it costs');
    const [deploy] = await untilWaiting(service, runId);
    await answer(service, runId, deploy?.id, { kind: 'approve' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    const run = await findRun(service.deps.db, 'default', runId);
    expect(await readRunOutput(service.deps.db, 'default', run)).toMatchObject({ value: VALUE });
    expect(requests(service)).toHaveLength(1);
  });

  it('is asked for as before, and the request can be shown again', async () => {
    const cut = { kind: 'cut', afterChunks: 1 } as const;
    const replies: readonly Reply[] = [{ text: WRONG }, { text: JSON_TEXT, fault: cut }];
    await using service = await start(({ index }) => replies[index] ?? { text: JSON_TEXT });
    const { output, run } = await ask(service, { schema: SCHEMA });
    expect(output).toMatchObject({ value: VALUE });
    const kept = await readStepRequest(service.deps.db, { tenantId: 'default', runId: run.id, step: 2, attempt: null });
    expect(kept).toMatchObject({ request: { outputState: { repairs: 1 } }, outputFormat: { schema: SCHEMA } });
  });
});

describe('a message to a run with a schema', () => {
  it('that comes with its result lets the run go on to another one', async () => {
    const gate = 'first';
    await using service = await start([
      { text: JSON_TEXT, gates: { beforeFirstChunk: gate } },
      { text: JSON.stringify({ ...VALUE, total: 13 }) },
    ]);
    const asking = ask(service, { schema: SCHEMA });
    await service.simulator.gate(gate).reached;
    const { id: sessionId } = await service.deps.db.selectFrom('sessions').select('id').executeTakeFirstOrThrow();
    await service.send(sessionId, 'And with shipping?');
    service.simulator.gate(gate).release();
    const { run, output } = await asking;
    expect(run).toMatchObject({ status: 'completed', step_count: 2 });
    expect(output).toMatchObject({ value: { total: 13 }, messageId: expect.stringMatching(/^msg_/) });
  });
});
