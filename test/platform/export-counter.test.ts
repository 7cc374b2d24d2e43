import {
  BatchSpanProcessor,
  InMemorySpanExporter,
  NodeTracerProvider,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-node';
import { expect, it } from 'vitest';
import { createExportCounter } from '../../src/platform/export-counter.ts';
import type { SpansLost } from '../../src/platform/span-losses.ts';
import { MAX_WAITING_SPANS } from '../../src/platform/telemetry.ts';

/** Ends spans in one turn, in which nothing is sent, and returns what is lost of them. */
async function burst(spans: number, maxQueueSize: number, exporter: SpanExporter): Promise<SpansLost[]> {
  const counter = createExportCounter(exporter, maxQueueSize);
  const batches = new BatchSpanProcessor(counter.exporter, { maxQueueSize, maxExportBatchSize: maxQueueSize });
  const provider = new NodeTracerProvider({ spanProcessors: [counter.admit(batches)] });
  const tracer = provider.getTracer('test');
  for (let no = 0; no < spans; no += 1) tracer.startSpan(`span ${no}`).end();
  const lost: SpansLost[] = [];
  counter.onLost((each) => void lost.push(each));
  await provider.forceFlush().catch(() => undefined);
  return lost;
}

it('a burst of 5 000 spans is sent whole', async () => {
  const exporter = new InMemorySpanExporter();
  expect(await burst(5_000, MAX_WAITING_SPANS, exporter)).toEqual([]);
  expect(exporter.getFinishedSpans()).toHaveLength(5_000);
});

it('spans for which there is no room are counted', async () => {
  const exporter = new InMemorySpanExporter();
  const lost = await burst(5_000, 512, exporter);
  const sent = exporter.getFinishedSpans().length;
  expect(lost).toEqual([{ reason: 'queue_full', spans: 5_000 - sent }]);
  expect(sent).toBeLessThan(5_000);
});

it('spans that the receiver did not take are counted', async () => {
  const failing: SpanExporter = { export: (_spans, done) => done({ code: 1 }), shutdown: async () => undefined };
  expect(await burst(10, 512, failing)).toEqual([{ reason: 'export_failed', spans: 10 }]);
});
