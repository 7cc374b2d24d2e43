import type { ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-node';
import { LOSS_REASONS, type LossReason, type SpansLost } from './span-losses.ts';

export type ExportCounter = Readonly<{
  /** The exporter, for a processor that has room for as many spans as may wait. */
  exporter: SpanExporter;
  /** The processor, which gets no span more than it has room for. */
  admit: (processor: SpanProcessor) => SpanProcessor;
  /** Has losses told from now on, and those of before at once. */
  onLost: (tell: (lost: SpansLost) => void) => void;
}>;

/** Counts the spans that are lost on their way to a receiver, of which the SDK's own processor says nothing. */
export function createExportCounter(exporter: SpanExporter, maxWaiting: number): ExportCounter {
  const lost: Record<LossReason, number> = { queue_full: 0, export_failed: 0 };
  let waiting = 0;
  let tell: ((lost: SpansLost) => void) | null = null;
  const tellAll = (): void => {
    for (const reason of LOSS_REASONS) {
      const spans = lost[reason];
      if (tell === null || spans === 0) continue;
      lost[reason] = 0;
      tell({ reason, spans });
    }
  };
  const counted: SpanExporter = {
    export(spans, done) {
      waiting -= spans.length;
      exporter.export(spans, (result) => {
        // `ExportResultCode.SUCCESS`, whose package Baton does not name.
        if (result.code !== 0) lost.export_failed += spans.length;
        tellAll();
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
  const admit = (processor: SpanProcessor): SpanProcessor => ({
    onStart: (span, context) => processor.onStart(span, context),
    onEnd(span: ReadableSpan) {
      if ((span.spanContext().traceFlags & SAMPLED) === 0) return;
      if (waiting >= maxWaiting) {
        lost.queue_full += 1;
        return;
      }
      waiting += 1;
      processor.onEnd(span);
    },
    forceFlush: () => processor.forceFlush(),
    shutdown: () => processor.shutdown(),
  });
  return {
    exporter: counted,
    admit,
    onLost(listener) {
      tell = listener;
      tellAll();
    },
  };
}

const SAMPLED = 1;
