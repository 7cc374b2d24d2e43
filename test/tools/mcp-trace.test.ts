import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { expect, it } from 'vitest';
import { inSpan } from '../../src/platform/tracing.ts';
import { openOdd, said } from './odd-server.ts';

it('a call has the trace that it belongs to', async () => {
  const provider = new NodeTracerProvider();
  provider.register();
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  await using odd = await openOdd({ call: ({ _meta }) => said(JSON.stringify(_meta)) });
  const agent = await odd.pin();
  const parent = `00-${traceId}-b7ad6b7169203331-01`;
  const meta = await inSpan('call', { parent }, () => odd.fixture.call(agent, 'm__good'));
  expect(JSON.parse(String(meta))).toMatchObject({
    traceparent: expect.stringMatching(`^00-${traceId}-[0-9a-f]{16}-01$`),
  });
  await provider.shutdown();
});
