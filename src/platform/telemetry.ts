import { loadOptional } from './optional-packages.ts';

const SDK = {
  purpose: 'spans for OTEL_EXPORTER_OTLP_ENDPOINT',
  packages: ['@opentelemetry/sdk-trace-node', '@opentelemetry/exporter-trace-otlp-http', '@opentelemetry/resources'],
};

/**
 * Sends the spans of this process to an OTLP receiver at this base URL; disposing it sends the rest. The SDK is loaded
 * only here, and reads the standard variables itself: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
 * `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`.
 * @throws BatonError `config_invalid` without the SDK
 */
export async function startTelemetry(otlpEndpoint: string): Promise<AsyncDisposable> {
  const [{ BatchSpanProcessor, NodeTracerProvider }, { OTLPTraceExporter }, resources] = await loadOptional(SDK, () =>
    Promise.all([
      import('@opentelemetry/sdk-trace-node'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
    ]),
  );
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = resources;
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'baton', 'service.instance.id': `${process.pid}` }))
    .merge(detectResources({ detectors: [envDetector] }));
  const exporter = new OTLPTraceExporter({ url: `${otlpEndpoint.replace(/\/$/, '')}/v1/traces` });
  const provider = new NodeTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(exporter)] });
  provider.register();
  return { [Symbol.asyncDispose]: () => provider.shutdown() };
}
