import { expect, it } from 'vitest';
import { addressOf, currentTraceparent, inSpan, linkTo, traceIds } from '../../src/platform/tracing.ts';
import { startTestService } from '../support/service.ts';

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

it('without telemetry spans record nothing, and rows and logs hold no trace', async () => {
  const inside = await inSpan('work', { parent: TRACEPARENT }, async (span) => [
    span.isRecording(),
    currentTraceparent(),
    traceIds(),
  ]);
  expect(inside).toEqual([false, null, {}]);
  await using service = await startTestService({ backend: 'postgres' });
  service.simulator.script('test', [{ text: 'Done.' }]);
  await service.startWorker();
  const { runId } = await service.send(await service.createSession(), 'Go');
  await service.ended(runId);
  const run = await service.deps.db
    .selectFrom('runs')
    .select(['traceparent', 'attempt_traceparent'])
    .executeTakeFirst();
  expect(run).toEqual({ traceparent: null, attempt_traceparent: null });
});

it.each([
  ['nothing', ''],
  ['the version that is none', TRACEPARENT.replace(/^00/, 'ff')],
  ['a trace of zeros', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`],
  ['a span of zeros', `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`],
  ['capital letters', TRACEPARENT.toUpperCase()],
  ['something longer', `${TRACEPARENT}0`],
])('%s is no traceparent', (_what, text) => {
  expect(linkTo(text, 'retry')).toEqual([]);
});

it('a later version of traceparent is read as far as it is the same', () => {
  const [link] = linkTo(`01${TRACEPARENT.slice(2)}-more`, 'recovery');
  expect(link?.context).toMatchObject({ spanId: 'b7ad6b7169203331', traceFlags: 1, isRemote: true });
});

it.each([
  ['https://api.example.com/v1', { 'server.address': 'api.example.com', 'server.port': 443 }],
  ['http://[::1]:8080/', { 'server.address': '::1', 'server.port': 8080 }],
  ['an endpoint of a program', {}],
])('the address of %s', (endpoint, attributes) => {
  expect(addressOf(endpoint)).toEqual(attributes);
});
