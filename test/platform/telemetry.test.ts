import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

/** An OTLP receiver that keeps each request as text. */
async function startReceiver(): Promise<AsyncDisposable & { url: string; received: string[] }> {
  const received: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      received.push(`${request.method} ${request.url} ${body}`);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

it('a process that is told where sends its spans there, the last ones when it ends', async () => {
  await using receiver = await startReceiver();
  await using service = await startTestService({ backend: 'postgres', environment: { BATON_PORT: '0' } });
  await using api = await startWorkerProcess('api', {
    ...service.environment,
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_SERVICE_NAME: 'baton-under-test',
  });
  expect((await fetch(`${api.url}/v1/sessions`)).status).toBe(200);
  expect(await api.kill('SIGTERM')).toBe(0);
  const sent = await eventually(
    async () => receiver.received.find((text) => text.includes('/v1/sessions')) ?? null,
    'the span',
  );
  expect(sent).toMatch(/^POST \/v1\/traces /);
  expect(sent).toContain('GET /v1/sessions');
  expect(sent).toContain('baton-under-test');
  expect(sent).toMatch(/"service.version","value":\{"stringValue":"\d+\.\d+\.\d+/);
});
