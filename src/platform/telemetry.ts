import type { Agent as HttpAgent } from 'node:http';
import { createRequire } from 'node:module';
import { createExportCounter } from './export-counter.ts';
import { loadOptional } from './optional-packages.ts';
import { proxyFor } from './proxy.ts';
import { ROOT_FOLDER } from './root-folder.ts';
import type { SpansLost } from './span-losses.ts';

const SDK = {
  purpose: 'spans for OTEL_EXPORTER_OTLP_ENDPOINT',
  packages: ['@opentelemetry/sdk-trace-node', '@opentelemetry/exporter-trace-otlp-http', '@opentelemetry/resources'],
};

/** Spans that wait for the receiver: a turn in which a thousand calls end makes more than the 2 048 of the SDK. */
export const MAX_WAITING_SPANS = 32_768;
const SPANS_PER_EXPORT = 2_048;

export type Telemetry = AsyncDisposable & Readonly<{ onLost: (tell: (lost: SpansLost) => void) => void }>;

/**
 * Sends the spans of this process to an OTLP receiver at this base URL; disposing it sends the rest. The SDK is loaded
 * only here, and reads the standard variables itself: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
 * `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`. What it cannot send is told to `onLost`.
 * @throws BatonError `config_invalid` without the SDK
 */
export async function startTelemetry(otlpEndpoint: string): Promise<Telemetry> {
  const [{ BatchSpanProcessor, NodeTracerProvider }, { OTLPTraceExporter }, resources] = await loadOptional(SDK, () =>
    Promise.all([
      import('@opentelemetry/sdk-trace-node'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
    ]),
  );
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = resources;
  const { version } = createRequire(import.meta.url)(`${ROOT_FOLDER}/package.json`);
  const own = { 'service.name': 'baton', 'service.version': version, 'service.instance.id': `${process.pid}` };
  const resource = defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [envDetector] }));
  const url = `${otlpEndpoint.replace(/\/$/, '')}/v1/traces`;
  const counter = createExportCounter(
    new OTLPTraceExporter({ url, httpAgentOptions: (protocol) => agentFor(new URL(url), protocol) }),
    MAX_WAITING_SPANS,
  );
  const batches = new BatchSpanProcessor(counter.exporter, {
    maxQueueSize: MAX_WAITING_SPANS,
    maxExportBatchSize: SPANS_PER_EXPORT,
  });
  const provider = new NodeTracerProvider({ resource, spanProcessors: [counter.admit(batches)] });
  provider.register();
  return { onLost: counter.onLost, [Symbol.asyncDispose]: () => provider.shutdown() };
}

/**
 * The exporter asks by Node's own client, whose agents know proxies from Node 24.5 and 22.21 on. An older one ignores the
 * option, and asks directly.
 */
async function agentFor(url: URL, protocol: string): Promise<HttpAgent> {
  const { Agent } = protocol === 'https:' ? await import('node:https') : await import('node:http');
  const proxy = proxyFor(url)?.url.href;
  return new Agent({
    keepAlive: true,
    ...(proxy !== undefined && { proxyEnv: { HTTP_PROXY: proxy, HTTPS_PROXY: proxy } }),
  });
}
